"""Compact logs without changing any view of the session."""
