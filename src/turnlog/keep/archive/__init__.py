"""Archive finished sessions: compress, verify, and optionally remove the originals."""
