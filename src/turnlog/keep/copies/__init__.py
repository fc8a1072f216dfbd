"""Kept copies: made, committed, read back, compared with the files they are copies of."""
