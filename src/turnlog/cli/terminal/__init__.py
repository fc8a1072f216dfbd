"""Printing to a terminal, a pager, a pipe or a file."""
