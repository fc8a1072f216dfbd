"""False positives: examples, placeholders, names, code, ids.

Masking too much is an error, too. A value of a known shape is ignored only if it is clearly an
example. A value found by its name must look random, or like a chosen password.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import Final

_EXAMPLE: Final = re.compile(
    rb"(?i:example|placeholder|redacted|your[-_]?(?:api|key|token|secret|own|real|actual))"
    rb"|x{6}|X{6}|12345678|(?i:abcdefgh)|[Ff]ake|FAKE|NotReal|not[-_]real|[Ff]orTest"
    # Keys from public documentation: GitHub's, jwt.io's, and Azure's local emulator's.
    rb"|16C7e42F292c6912E77|IkpvaG4gRG9lI|Eby8vdM02xNOcqFl"
    # Publishable keys, and public keys and certificates in DER.
    rb"|\Apk_(?:live|test)_|\AMI(?:IBI|IEI|GfM|GeM)[AjTDM]|\AMFkwEwYH|\AMC[ow]wBQYDK|\Assh-"
)
# Short words occur by chance: they count at the beginning of a word, and in one case only.
_SHORT_WORDS: Final = b"|".join(
    form
    for word in b"your fake mock todo fixme dummy bogus sample lorem insert replace".split()
    for form in (word, word.upper(), word.capitalize())
)
_STANDS_FOR: Final = re.compile(
    rb"(?i:redacted|placeholder|example|change[-_]?me|not[-_ ]?(?:a|my)[-_ ]?real|deadbeef)"
    rb"|(?i:cafebabe)"
    rb"|\bxxx\b|xxxx|XXXX|\*\*\*|\.\.\.|\xe2\x80\xa6|1234567|abcdefg|process\.env|environ|\^[A-Z]+\^"
    rb"|\$\{|\{\{|\$\(|%\(|<[A-Za-z_ -]+>|\[[A-Za-z_ -]+\]|\{[A-Za-z_]+\}"
    rb"|(?<![A-Za-z])(?:" + _SHORT_WORDS + rb")(?![a-z])"
)
_REFERENCE: Final = re.compile(
    rb"[${(<\[:]|--|~/|[a-z]+://|&(?:#\d+|[a-z]{2,4});|[@%&*#](?:[{(]"
    rb"|(?:[A-Za-z_./:-]*\d{0,2}|[A-Z][A-Z0-9_]*)%?\Z)"
)
_PATH: Final = re.compile(rb"\.{0,2}/[A-Za-z$]")
# Possessive throughout, against exponential backtracking over words of words.
_NAMED: Final = re.compile(rb"(?:(?>(?:[A-Z]?[a-z]++)++|[A-Z]++)(?:[._/:-]++|\d{0,3}\Z))++")
_UUID: Final = re.compile(rb"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HEX: Final = re.compile(rb"[0-9a-f]+|[0-9A-F]+")
_DATED: Final = re.compile(rb"20\d\d-?[01]\d-?[0-3]\d")
_NAMES_ITSELF: Final = re.compile(
    rb"(?i)pass|pwd|secret|token|key|auth|cred|user|name|login|field|input|string|type|none|null"
    rb"|true|false|undefined|required|optional|hidden|invalid|valid|error|missing|empty|default|test"
    # The word for password in other languages.
    rb"|wachtwoord|lozinka|salasana|heslo|senha|parola|parole|adgangskode|kodeord|kennwort|clave"
    rb"|contrase|jelsz|haslo|losenord|sifre"
)
_NAME_WITH_DIGITS: Final = re.compile(rb"[A-Za-z0-9_./:-]+")
_WELL_KNOWN: Final = frozenset(
    b"postgres postgresql root admin administrator user guest mysql mariadb redis rabbitmq mongo "
    b"mongodb minio minioadmin sa app dev local demo foo bar foobar baz hello world letmein qwerty "
    b"develop development staging production wordpress joomla drupal keycloak grafana airflow "
    b"nextcloud gitea gitlab jenkins sonarqube elastic elasticsearch django laravel symfony "
    b"vagrant docker ubuntu oracle neo4j opensesame".split()
)
# Values that describe a password, or that follow its name by accident.
_DESCRIBES: Final = re.compile(
    rb"[~^<>=v]{0,3}\d+(?:\.(?:\d+|[xX*]))+(?:[-+.][A-Za-z0-9.+-]*)?"  # A version.
    rb"|(?:@[\w.-]+/)?[\w.-]+@[~^<>=v]{0,2}\d[\w.+-]*"  # An npm package.
    rb"|(?:npm|workspace|file|link|catalog|git\+\w+):.*"
    rb"|[a-z][\w-]*(?:\.[\w-]+)+:[A-Za-z][\w.-]*(?::[\w.-]+)*"  # A Maven artifact.
    rb"|[a-z][\w-]*:[a-z][\w-]*:\d+\.[\w.-]+"
    rb"|(?:hash(?:ed)?|sha\d{1,3}|md5|bcrypt):.*"
    rb"|[^:]*:[x*!]{0,2}:\d+:\d+:.*"  # A line of /etc/passwd.
    rb"|[A-Za-z_]+(?::[\w,.]+)?(?:\|[A-Za-z_]+(?::[\w,.-]+)?)+"  # Rules of a validator.
    rb"|[a-z_]{2,20}[:=]\d{1,4}(?:,\d{1,4})?"
    rb"|(?:[\w./@-]++:)?\d{1,6}:(?:\d{1,6}:)?\S*"  # A position in a file.
    rb"|[A-Za-z0-9.-]+:\d{2,5}(?:/\S*)?"  # A host and its port.
    rb"|[A-Za-z][\w.+-]*@[A-Za-z0-9-]+(?:\.[A-Za-z]{2,})+"  # A mail address.
)
_TECHNICAL: Final = re.compile(
    rb"(?i)base(?:16|32|58|64)|sha-?(?:1|2|3|224|256|384|512)|md[45]|utf-?(?:8|16)"
    rb"|aes-?(?:128|192|256)|rsa-?\d{4}|ed25519|argon2(?:id?|d)?|pbkdf2|oauth-?2|x509|ipv[46]"
    rb"|\d{1,9}[-+]?(?:chars?|characters?|bytes?|bits?|digits?|times?|days?|hours?)"
    rb"|&[a-z]{2,5}\Z"  # An HTML quote after the last word.
)
_CODE: Final = re.compile(
    rb"::|[?!]\.|\.\w+[:=]|->|=>|[(){}\[\]]|[.:=]\Z|\A[.+&]?\$|\A[.+&][A-Za-z_(]"
    rb"|\A!{0,2}[A-Za-z_$][A-Za-z_$.]*\d{0,2}\Z"
)
_CALL: Final = re.compile(rb"[A-Za-z_][\w.]*\(")
_LETTER: Final = rb"(?:[A-Za-z]|[\x80-\xff])"
_WORDS: Final = re.compile(
    rb"[(\[]?" + _LETTER + rb"*+(?:(?>[-_./: ,'*]+)" + _LETTER + rb"*+)*+[.:!?*)\]]*+"
)
_PLAIN: Final = re.compile(rb"[A-Za-z_-]+")
_PHRASE: Final = re.compile(rb"[A-Za-z]+(?:[-_!][A-Za-z]*)+")
_UNICODE: Final = re.compile(rb"\\{1,15}(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2}))")
# Letter pairs that make up about two thirds of English text and of identifiers.
_COMMON_PAIRS: Final = frozenset(
    b"th he in er an re nd at on nt ha es st en ed to it ou ea hi is or ti as te et ng of al de se "
    b"le sa si ar ve ra ld ur ma me ke ic ll ss ee co io li ch la el ro ri ne no us ta di em ec ce "
    b"tr ns un pr om be ex ho ca wi ge mo po il ac ly lo id ey ie ut ad ap ai ag am ab ay ue sh sk "
    b"so".split()
)
_FEWEST_DIFFERENT: Final = 7
_COMMON_BY_CHANCE: Final = 0.14
_MOST_COMMON: Final = 0.42
_FEWEST_COMMON: Final = 0.2
_FEWEST_CHANGES: Final = 0.16
_LONG: Final = 32
_LOOKED_AT: Final = 160
"""How much of a value is examined."""


def is_example(value: bytes) -> bool:
    """Return whether a value of a known shape is only an example."""
    return _EXAMPLE.search(value) is not None


def is_varied(value: bytes) -> bool:
    """Return whether a value of a known shape has enough different characters to be real."""
    return has_variety(value) and not is_example(value)


def is_mixed(value: bytes) -> bool:
    """Return whether a value of a known shape is varied, and not all lower case."""
    return is_varied(value) and any(_kind(byte) in "A0" for byte in value)


def is_placeholder(value: bytes) -> bool:
    """Return whether *value* is a placeholder, or a reference to the secret."""
    if _STANDS_FOR.search(value) or _REFERENCE.match(value):
        return True
    return len(set(value)) < 4 or value.lower() in _WELL_KNOWN


def names_itself(value: bytes) -> bool:
    """Return whether *value* consists of words that describe it: ``my_password``."""
    return _PLAIN.fullmatch(value) is not None and _NAMES_ITSELF.search(value) is not None


def is_uuid(value: bytes) -> bool:
    return _UUID.fullmatch(value) is not None


def is_hex(value: bytes) -> bool:
    return _HEX.fullmatch(value) is not None


def looks_random(value: bytes, shortest: int = 16) -> bool:
    """Return whether *value* is a mixture of letters and digits without words."""
    value = _unescaped(value[:_LOOKED_AT])
    if len(value) < shortest or not has_variety(value):
        return False
    kinds = [_kind(byte) for byte in value]
    digits = kinds.count("0")
    if is_example(value) or is_uuid(value) or not value.isascii() or re.search(rb"\s", value):
        return False
    if not {"a", "A"} & set(kinds) or _DESCRIBES.fullmatch(value):
        return False
    if is_hex(value):
        return digits > 0
    if (_DATED.search(value) and len(value) < 40) or _NAMED.fullmatch(value):
        return False
    changes = sum(a != b for a, b in pairwise(kinds)) / (len(kinds) - 1)
    if not digits and ({"a", "A"} - set(kinds) or changes < 2 * _FEWEST_CHANGES):
        return False  # Names do not mix cases like this.
    if len(value) >= _LONG and changes >= 3 * _FEWEST_CHANGES:
        return True
    return changes >= _FEWEST_CHANGES and not _is_wordy(value)


def looks_chosen(value: bytes, *, is_quoted: bool, is_given: bool = False) -> bool:
    """Return whether *value*, next to the name of a password, is a password.

    It must not be a word, a name or code. Where only a password is possible (*is_given*: in an .env
    file, after a program's option), a word can be one as well.
    """
    value = _unescaped(value)
    if not 6 <= len(value) <= 200 or re.search(rb"\s", value):
        return False
    if looks_random(value):
        return True
    kinds = {_kind(byte) for byte in value}
    if (
        _PATH.match(value)
        or _CALL.match(value)
        or _DESCRIBES.fullmatch(value)
        or not kinds & {"a", "A"}
    ):
        return False
    if not kinds - {"a", "A"}:
        if is_given:
            return value.isascii() and not _NAMES_ITSELF.search(value)
        return _are_random_letters(value)
    if _CODE.search(value) if not (is_quoted or is_given) else value[:2] in (b".$", b". "):
        return False
    if _WORDS.fullmatch(_TECHNICAL.sub(b"", value)):
        return is_given and _PHRASE.fullmatch(value) is not None and not _NAMES_ITSELF.search(value)
    return not (_NAME_WITH_DIGITS.fullmatch(value) and _NAMES_ITSELF.search(value))


def _unescaped(value: bytes) -> bytes:
    """Return *value* with Unicode escapes undone."""
    if b"\\" not in value:
        return value
    return _UNICODE.sub(
        lambda escape: chr(int(escape[1] or escape[2], 16)).encode("utf-8", "surrogatepass"), value
    )


def _are_random_letters(value: bytes) -> bool:
    """Return whether letters form no words: random capitals, or unusual letter pairs."""
    if len(value) < 8 or not value.isascii():
        return False
    kinds = [_kind(byte) for byte in value]
    changes = sum(a != b for a, b in pairwise(kinds)) / (len(kinds) - 1)
    if changes >= 2 * _FEWEST_CHANGES:
        return not _is_wordy(value)
    pairs = [bytes(pair) for pair in pairwise(value.lower())]
    return sum(pair in _COMMON_PAIRS for pair in pairs) <= _FEWEST_COMMON * len(pairs)


def has_variety(value: bytes) -> bool:
    different = set(value)
    if len(different) < _FEWEST_DIFFERENT:
        return False
    return 2 * max(map(value.count, different)) <= len(value)


def _kind(byte: int) -> str:
    if 97 <= byte <= 122:
        return "a"
    if 65 <= byte <= 90:
        return "A"
    if byte >= 128:
        return "a"  # A non-ASCII letter.
    return "0" if 48 <= byte <= 57 else "-"


def _is_wordy(value: bytes) -> bool:
    """Return whether more of its letter pairs are common in words than by chance."""
    # In camelCase a capital begins a new word, so that pair means nothing.
    pairs = [
        bytes((a | 0x20, b | 0x20))
        for a, b in pairwise(value)
        if _kind(a) in "aA" and _kind(b) in "aA" and (_kind(a) == "A" or _kind(b) == "a")
    ]
    if len(pairs) < 4:
        return False
    part = sum(pair in _COMMON_PAIRS for pair in pairs) / len(pairs)
    spread = math.sqrt(_COMMON_BY_CHANCE * (1 - _COMMON_BY_CHANCE) / len(pairs))
    return part > max(_MOST_COMMON, _COMMON_BY_CHANCE + 3 * spread)
