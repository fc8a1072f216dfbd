"""Copy a session from one layout to another, without losing a byte."""
