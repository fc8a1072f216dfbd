"""Commands that connect agents."""
