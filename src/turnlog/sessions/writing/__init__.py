"""Writing one session: build records, stamp them, append, stream, fork."""
