"""Delete sessions to the trash, restore them from it, and purge it."""
