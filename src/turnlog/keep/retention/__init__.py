"""Expiring old sessions, and the cleanup that agents do themselves."""
