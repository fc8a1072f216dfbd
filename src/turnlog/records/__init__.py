"""The meaning of one line: records, their parts, token usage, dates. No files, no SQL.

``decode`` converts the bytes of a line to a typed record or to a Damage, ``encode`` converts a
record back to its bytes. ``record`` and ``record_types`` define the types, ``dialects`` the formats
of other programs, ``responses`` counts each API response once.
"""
