"""Kept copies: make them, commit them, read them back, compare them with their files."""
