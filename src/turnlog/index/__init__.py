"""The index: one SQLite file for each set of homes, derived from the logs.

It can be deleted at any time. A refresh reads only what was appended since a log's bookmark. Rows
and bookmark are committed together, so a kill, a second refresh at the same time or a repeated one
does not change the result.
"""
