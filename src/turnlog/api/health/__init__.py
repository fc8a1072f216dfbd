"""Check logs, find secrets, diagnose problems."""
