"""Secrets: found and masked, by one function on every way out. Pure.

    redact("curl -u ada:…")        text, as it is shown or exported
    redact_line(line)              one raw line of a log: it stays one JSON value
    redact_value(document)         plain JSON, as it is about to be written
    find_secrets(text)             what would be masked, and where
    gather_known(lines, rules)     rules by which what is a secret in one line is one in all

Promises: a secret of a known shape or beside a telling name does not survive, however it is written
(JSON's escapes, URLs' escapes, JSON within JSON); what stands around it stays byte for byte; masks
hold no secret, are the same for the same secret, and are not masked again; JSON stays JSON; hashes,
ids, UUIDs, images and signatures are no secrets. A secret is never kept: only its digest is.

The rules are our own. The scanners that are kept well are programs in Go, or read a tenth of a
megabyte in a second (detect-secrets) and call every second id a secret. Here every byte is passed
over about twenty-five times by searches for one literal, which C does at a gigabyte a second, and a
pattern is tried only where such a literal stands.
"""

from __future__ import annotations

from turnlog.redact.find import Secret, find_secrets
from turnlog.redact.known_values import gather_known
from turnlog.redact.mask import redact, redact_line, redact_named, redact_value
from turnlog.redact.user_rules import NO_RULES, Rules, rules_from

__all__ = [
    "NO_RULES",
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
