"""Which sessions and projects exist, and which one a name refers to."""
