"""How the index numbers things. Ids say something, so that no table must."""

OFFSET_BITS = 40
"""A record's id is its log's id and its offset: log << 40 | offset."""
SECOND_BITS = 8
"""A text's id is when it was said and a number: second << 8 | number."""
