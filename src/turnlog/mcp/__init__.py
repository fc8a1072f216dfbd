"""An MCP server that lets agents look up past sessions. Read-only.

Answers are framed as data, limited in size, masked, free of control characters, and restricted to
the project that the server was started for unless its owner widened that. The `mcp` library is
imported only to serve.
"""
