"""Safekeeping: backups of sessions, verified and restorable, and deletion to the trash.

``copies`` keeps compressed copies of agents' files, ``restore`` restores them, ``verify`` checks
them, ``archive`` and ``compaction`` save space, ``retention`` and ``trash`` delete, ``schedule``
runs all of it regularly. At every moment each byte exists in the original or in a verified copy.
Nothing is deleted silently or because of an invalid setting, and repeating an interrupted operation
completes it.
"""
