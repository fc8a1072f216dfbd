"""What can be asked of the logs."""
