"""What is remembered of the logs: one SQLite file for each set of homes, disposable.

Everything in it is derived from the logs and can be deleted at any time; refreshing reads what was
appended since a log's bookmark, and nothing else. Rows and bookmark are committed together, so that
a kill at any moment, a second refresher or a repeated refresh changes nothing in what it says.
"""
