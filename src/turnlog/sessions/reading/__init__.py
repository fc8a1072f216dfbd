"""Reading one session: the tree of its records, threads, branches, context and subagents."""
