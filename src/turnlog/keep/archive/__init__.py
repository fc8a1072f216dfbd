"""Archiving finished sessions: compressed, compared, read-only."""
