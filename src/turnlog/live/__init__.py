"""What agents are doing now."""
