"""Restore sessions from kept copies, to the same directory or another."""
