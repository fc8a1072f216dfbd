"""Self-contained HTML: escaped fragments, session pages, charts."""
