"""Find and mask secrets. All output goes through here; no I/O.

    redact("curl -u ada:…")        text to be shown or exported
    redact_line(line)              one raw line of a log, which stays one JSON value
    redact_value(document)         plain JSON about to be written
    find_secrets(text)             what would be masked, and where
    gather_known(lines, rules)     rules that mask a secret of one line in all lines
    Pseudonyms()                   user and host names replaced by user1, host1 …

A secret of a known shape or next to a telling name is masked however it is escaped (JSON, URLs,
JSON within JSON), and the text around it stays byte for byte. Masks reveal nothing, are equal for
equal secrets, and are not masked again. Hashes, ids, UUIDs, images and signatures are not secrets.
Only the digest of a secret is ever kept.

The rules are our own because maintained scanners are Go programs, or slow (detect-secrets: 0.1
MB/s) with many false positives. Here C searches for literals pass about 25 times over the text at 1
GB/s, and a pattern is tried only where a literal was found.
"""

from __future__ import annotations

from turnlog.redact.find import Secret, find_secrets
from turnlog.redact.mask import gather_known, redact, redact_line, redact_named, redact_value
from turnlog.redact.pseudonyms import Pseudonyms
from turnlog.redact.user_rules import NO_RULES, Rules, rules_from

__all__ = [
    "NO_RULES",
    "Pseudonyms",
    "Rules",
    "Secret",
    "find_secrets",
    "gather_known",
    "redact",
    "redact_line",
    "redact_named",
    "redact_value",
    "rules_from",
]
