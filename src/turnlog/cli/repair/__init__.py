"""Commands that check and repair logs."""
