"""Copilot CLI's homes and sessions."""
