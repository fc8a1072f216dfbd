"""Session memory for the OpenAI Agents SDK."""
