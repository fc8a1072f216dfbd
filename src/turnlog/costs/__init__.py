"""What was used and what it cost, from the index or from the logs."""
