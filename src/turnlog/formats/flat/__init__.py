"""The flat store: one log per session with its metadata, and an index of all sessions."""
