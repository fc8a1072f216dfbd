"""The agents' door: an MCP server through which agents look up what was done before.

Read only. Whatever leaves by it is framed as data, bounded, free of secrets and of characters that
act, and of the project that the server was started for, unless its owner widened that. The room is
thin: what is asked is answered by `questions`, and `mcp` is imported only by those who serve.
"""
