"""Copying a session from one format into another."""
