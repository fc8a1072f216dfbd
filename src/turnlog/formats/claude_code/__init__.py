"""What only Claude Code does: its settings and its hooks."""
