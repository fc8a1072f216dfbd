"""List sessions, read one and its side files, resume, label, fork and convert it."""
