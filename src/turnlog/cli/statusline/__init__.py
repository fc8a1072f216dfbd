"""The status line of Claude Code, answered without importing click."""
