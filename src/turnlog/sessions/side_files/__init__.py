"""Files beside the logs: todos, plans, file history, typed prompts."""
