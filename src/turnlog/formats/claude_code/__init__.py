"""Claude Code's settings and hooks: edit settings.json, read what a hook is given."""
