"""Side files of sessions: todos, plans, file history, typed prompts."""
