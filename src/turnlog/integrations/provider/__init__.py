"""An asynchronous storage provider for agent programs."""
