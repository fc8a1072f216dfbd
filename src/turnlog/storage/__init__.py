"""Lines on disk: read, written, followed, checked and mended. Knows bytes, not meaning."""
