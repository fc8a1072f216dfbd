"""Keep copies of sessions, verify and restore them; trash and retention."""
