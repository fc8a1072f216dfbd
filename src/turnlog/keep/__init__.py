"""Safekeeping: what agents did is kept, proved, put back, and deleted only when somebody asks.

Owns turnlog's kept copies of agents' files and archives, restoring and verifying them, compaction,
and the ways in which anything goes: deletion, retention, and the trash they lead to. It promises
that at every moment each byte exists whole somewhere, the original or a copy that was read back;
that nothing is deleted silently or by a setting that cannot be read; and that whatever was killed
halfway is finished by doing it again.
"""
