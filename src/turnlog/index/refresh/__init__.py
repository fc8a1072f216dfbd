"""Reading what was appended to the logs into the index."""
