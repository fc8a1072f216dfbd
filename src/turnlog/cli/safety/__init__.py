"""Commands that keep, verify, restore, archive and delete sessions."""
