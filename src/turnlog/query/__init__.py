"""Structured questions: filters over records, messages and calls, and read-only SQL."""
