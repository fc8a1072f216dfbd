"""Whether the logs, the index and the kept copies are in order, and secrets in the logs."""
