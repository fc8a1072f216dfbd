"""The Python API: a store over some homes, its sessions, and one module per topic."""
