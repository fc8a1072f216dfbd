"""Expire old sessions, and predict the cleanup that agents do themselves."""
