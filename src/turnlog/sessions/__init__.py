"""One session: the tree of its records, its threads and turns, and its agents."""
