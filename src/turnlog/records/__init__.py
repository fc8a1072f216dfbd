"""What one line means. Pure: no files, no SQL.

``decode`` turns the bytes of a line into a typed record or a described damage, ``encode`` turns a
record back into its bytes. See ``record`` for the types, ``dialects`` for who writes them how.
"""
