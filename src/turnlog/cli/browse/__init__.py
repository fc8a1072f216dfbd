"""Commands that list and show sessions."""
