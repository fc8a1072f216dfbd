"""Reading one session: the tree of its records, threads, branches and subagents."""
