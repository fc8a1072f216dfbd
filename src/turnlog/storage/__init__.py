"""Log files on disk: read, append, follow, validate, repair and compress lines of bytes.

``reader`` and ``tail`` read, ``writer`` and ``buffered_writer`` append, ``replace`` swaps a log for
a new version, ``frames`` and ``compressed`` handle zstd. Nothing here knows what a record means.
"""
