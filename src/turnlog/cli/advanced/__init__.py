"""Commands for queries, SQL, conversion and the index."""
