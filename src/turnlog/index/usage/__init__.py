"""Token usage in the index: scanned first, stored small, counted once."""
