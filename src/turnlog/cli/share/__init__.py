"""Commands that export sessions and find secrets."""
