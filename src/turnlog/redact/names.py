"""Secrets recognized by their name: ``API_KEY=…``, ``"password": "…"``, ``Bearer …``.

A name is telling if it ends in a word such as key, token or password, and the word before does not
make it harmless (a cache key, a page token). An assignment follows, and then the value: in quotes,
however often they are escaped, or up to the next blank. After a password's name the value need only
look chosen; elsewhere it must look random.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from turnlog.redact.false_positives import (
    is_hex,
    is_placeholder,
    is_uuid,
    looks_chosen,
    looks_random,
)
from turnlog.redact.spans import SecretSpan

_RANK: Final = 5
_LONGEST_NAME: Final = 48
_LONGEST_VALUE: Final = 2000
_MOST_NESTED: Final = 8
_SHORTEST: Final = 16
_SHORTEST_SECRET: Final = 12

# What may follow the telling word in the name, then a quote, then an assignment; or a field
# `value`, where the name is that of a variable in a list.
_AFTER: Final = (
    rb"(?:s|_?\d{1,2}|_?base|[_-](?:prod|production|dev|staging|live|test|default|old|new|value"
    rb"|primary|secondary|main|base64|b64))?"
    rb"(?:\\{0,7}[\"'`])?\]?(?::[ ]?(?:str|string)\b)?"
    rb"(?:(?:,?(?:\s|\\{1,7}[nrt]){0,40}(?:\\{0,7}[\"'])?value(?:\\{0,7}[\"'])?)?"
    rb"(?:\*\*)?[ \t]{0,8}(?:=>|:=|:|=)(?:\*\*)?[ \t]{0,8}|>|[ ]"
    rb"|,[ ]{0,2}(?=\\{0,7}[\"']))"
    rb"(?![\s{(\[]|\d{1,12}(?:[\s,;)}\]\\]|\Z)|null|none|true|false)"  # Not a string.
)
# Each begins with a rare letter, for which the search is fast, and looks back to the rest of the
# word: a pass over all bytes costs more than all attempts. The empty group that matched shows which
# word it is, and so how far back the word begins.
_WORDS: Final = (
    (
        re.compile(rb"k(?:ey()" + _AFTER + rb"|en(?<=token)()" + _AFTER + rb")"),
        ((b"key", 0), (b"token", 2)),
    ),
    (
        re.compile(rb"p(?:ass(?:word|wd|phrase|code)?()" + _AFTER + rb"|wd()" + _AFTER + rb")"),
        ((b"pass", 0), (b"pwd", 0)),
    ),
    (re.compile(rb"cret(?<=secret)()" + _AFTER), ((b"secret", 2),)),
)
_ESCAPED: Final = re.compile(rb"u[0-9A-Fa-f]{4}|[nrt]")
_PAIRS: Final = re.compile(rb"[:=>]")
_NAME: Final = re.compile(rb"[A-Za-z0-9_-]+")
_SPOKEN: Final = re.compile(rb"\b[A-Za-z]+[ ]\Z")  # The API key is …
_LEFT: Final = re.compile(rb"[A-Za-z0-9_.$-]*\Z")
_PARTS: Final = re.compile(rb"[a-z]+|[A-Z]+(?![a-z])|[A-Z][a-z]+|\d+")
_QUOTE: Final = re.compile(rb"[bru]?(\\{0,15})([\"'`])")
_UNQUOTED: Final = re.compile(rb"(?:[^\s\"'`\\<>,;&|(){}\[\]]|\\\\(?![\\nrtbfu\"'/]))+")
_OF_LINE: Final = re.compile(rb"(?:[^\s\"'`\\]|\\\\(?![\\nrtbfu\"'/]))+")
_PLAINLY: Final = re.compile(rb"[^\"'`\\]+")
_ASSIGNS: Final = re.compile(rb"[A-Z][A-Z0-9_]*")
# A sentence that states the secret: "the password is …", "set the token to '…'".
_SAYS: Final = re.compile(
    rb"(?:(?:for|of) [^\s\"']{1,60} )?(?:is(?: now| set to)?|was|will be|(?:set|changed) to"
    rb"|to(?= \\{0,7}[\"'`])):? (?:\*\*)?"
)
_LOGIN: Final = re.compile(rb"\blogin(?:\s|\\n)+\S{1,60}(?:\s|\\n)+\Z")  # As in .netrc.
_SQL: Final = (b"with ", b"encrypted ", b"set ")
_USER: Final = re.compile(rb"(?i)(?<![a-z])user(?:_?name)?\\*[\"']?\s*[:=]\s*\\*[\"']?\Z")
_NEAR: Final = 160
_GOES_ON_AFTER_QUOTE: Final = (b")", b",", b";")
_BARE: Final = re.compile(rb"[^\"'`]*")
_EMPTY: Final = re.compile(rb"[^ \t]=[ \t]+\Z")
_ENDS_LINE: Final = re.compile(rb"[\s\"'\\]|\Z")

# A key is a secret if one of these words precedes it, or if its name is all capitals.
_KEYS: Final = frozenset(
    b"api access secret private encryption signing master service auth account storage admin app "
    b"client license licence deploy subscription shared hmac jwt session crypt cipher aes webhook "
    b"root user management write read".split()
)
# Issuers of keys, which name them.
_ISSUERS: Final = frozenset(
    b"adafruit adobe airtable algolia alibaba anthropic asana atlassian bitbucket bittrex "
    b"cloudflare codecov cohere coinbase confluent contentful datadog discord dropbox "
    b"facebook fastly finnhub flickr gemini github gitlab google groq hubspot huggingface "
    b"intercom jfrog kraken kucoin launchdarkly linear linkedin looker mailchimp mailgun "
    b"mapbox mattermost messagebird mistral netlify newrelic okta openai pinecone plaid "
    b"postmark rapidapi replicate sendbird sendgrid sentry shodan slack snyk sonar stripe "
    b"supabase telegram travis twilio twitch twitter typeform vercel xai yandex zendesk".split()
)
_ISSUERS_OF_UUIDS: Final = frozenset(
    b"heroku hubspot kucoin messagebird plaid postmark sendbird snyk squarespace".split()
)
_HARMLESS: Final = frozenset(
    b"public pub primary foreign cache sort partition idempotency hot map object dict group index "
    b"routing unique composite natural registry hash row column translation locale query next "
    b"page "
    b"continuation sync cursor cancellation pagination design pad eos bos sep mask unk special "
    b"csrf xsrf input output max min total num count tokenizer first last prev previous start "
    b"end fingerprint keyboard shortcut press arrow enter localstorage react prop state "
    b"order publishable site export hashed".split()
)
# A name that begins so describes an action on a password, and has none.
_DONE_TO_IT: Final = frozenset(
    b"reset forgot forget change update enter confirm invalid wrong show hide toggle generate set "
    b"get has is no need require weak missing incorrect verify check create save remember".split()
)
# Words that follow an option in prose.
_GOES_ON: Final = frozenset(
    b"option options argument arguments parameter parameters switch instead without should because "
    b"prompt prompts setting and".split()
)
_GRANTING: Final = frozenset(
    b"auth api access refresh bearer deploy bot personal bearer npm".split()
)
_BEFORE_KEY: Final = tuple(_KEYS | _ISSUERS)
_SECRETIVE: Final = frozenset(b"password passwd passphrase passcode pass pwd".split())
_KINDS: Final = {
    b"key": "api key",
    b"token": "token",
    b"secret": "secret",
    b"pass": "password",
    b"pwd": "password",
}


def find_named(data: bytes, low: bytes) -> Iterator[SecretSpan]:
    """Yield the values in *data* after a telling name; *low* is *data* in lower case."""
    ends: Counter[int] = Counter()
    for pattern, words in _WORDS:
        for match in pattern.finditer(low):
            word, back = words[(match.lastindex or 1) - 1]
            found = _valued(data, word, match.start() - back, match.end(), ends)
            if found is not None:
                yield found


def _valued(
    data: bytes, word: bytes, at: int, behind: int, ends: Counter[int]
) -> SecretSpan | None:
    """Return the secret that begins at *behind*, after the name whose *word* is at *at*.

    *ends* counts how often a value ended at a position: names within names within values are not
    followed forever.
    """
    sign, written = data[behind - 1 : behind], data[at:behind]
    link, behind = _link(data, word, at, behind)
    if link is None:
        return None
    is_option, is_said = link == "option", link == "said"
    left = _LEFT.search(data[max(0, at - _LONGEST_NAME) : at])
    before = _unescaped(data, at, left[0] if left else b"")
    if word == b"key" and data[at - 1 : at] == b" ":
        spoken = _SPOKEN.search(data[max(0, at - 20) : at])
        before = spoken[0] if spoken else b""
    whole = _NAME.match(data, at, behind)
    name = before + (whole[0] if whole else b"")
    if (is_option and not name.startswith(b"--")) or not _is_telling(word, before, name):
        return None
    if b"[redacted " in data[max(0, at - _LONGEST_NAME) : at] and b"]" in written:
        return None  # It is a mask that ends in this word.
    if name.lower() == b"pass" and (is_said or b":" in written):
        return None  # Tests that passed, and functions that pass arguments.
    begin = at - len(before)
    previous = data[begin - 1 : begin]
    if previous == b"/" and sign == b":":
        return None  # A file and a line number.
    is_default = previous == b"{" and data[begin - 2 : begin - 1] == b"$"
    if is_default and data[behind : behind + 1] in (b"-", b"?", b"+"):
        if data[behind] != 0x2D:
            return None
        behind += 1  # The shell's default for an unset variable.
    is_shouted = _ASSIGNS.fullmatch(name) is not None
    start, end, is_quoted = value_at(
        data, behind, is_line=is_said or (is_shouted and not is_default)
    )
    ends[end] += 1
    if ends[end] > _MOST_NESTED:
        return None
    follows = data[end : end + 2]
    if (sign == b">" and follows != b"</") or (not is_quoted and follows[:1] in (b"(", b"[")):
        return None  # Not an XML element; or a call, or an index.
    if is_quoted and previous == data[behind : behind + 1] and _BARE.fullmatch(written):
        return None  # The quote ends a string that ends in the name.
    if is_quoted and data[start : start + 1] in _GOES_ON_AFTER_QUOTE:
        return None  # Likewise: the name ended a string, and code follows.
    if not is_quoted and (_EMPTY.search(written) or data[start : start + 1] == b"="):
        return None  # Nothing follows the sign in a shell, or it is a comparison.
    value = data[start:end]
    # .env files and options have values, not code.
    is_assigned = sign == b"=" or b":" in written
    is_literal = is_quoted or is_option or (is_shouted and is_assigned)
    is_certain = link == "login"
    if is_option or (sign == b"=" and name.startswith(b"--")):
        is_certain = value.lower() not in _GOES_ON
    elif is_shouted and not is_default and words_of(name)[0] not in _DONE_TO_IT:
        is_certain = is_quoted or sign == b"="
        is_certain |= b":" in written and _ENDS_LINE.match(data, end) is not None
    kind = kind_of(name, value, is_quoted=is_literal, is_given=is_certain)
    if kind is None or (kind == "password" and _is_user(data, begin, value)):
        return None
    return SecretSpan(start, end, kind, f"[redacted {kind}]".encode(), value, _RANK)


def _link(data: bytes, word: bytes, at: int, behind: int) -> tuple[str | None, int]:
    """Return the link between name and value, and where the value begins, or None."""
    written = data[at:behind]
    if _PAIRS.search(written):
        return "sign", behind
    if b"," in written:  # In a list of names, the next name is not the value.
        return ("sign" if b"define(" in data[max(0, at - _LONGEST_NAME) : at] else None), behind
    if b"--" in data[max(0, at - 16) : at]:
        return "option", behind
    if says := _SAYS.match(data, behind):
        return "said", says.end()
    return ("login" if word == b"pass" and _is_login(data, at, behind) else None), behind


def _is_user(data: bytes, at: int, value: bytes) -> bool:
    """Return whether *value* is also the user's name, as on throwaway servers."""
    user = data.rfind(value, max(0, at - _NEAR), at)
    if user < 0 or data[user + len(value) : user + len(value) + 1] == b"@":
        return False
    return _USER.search(data[max(0, user - 24) : user]) is not None


def _is_login(data: bytes, at: int, behind: int) -> bool:
    """Return whether a password follows the word at *at*, as in .netrc and SQL."""
    before = data[max(0, at - 80) : at]
    if _LOGIN.search(before):
        return True
    return before[-10:].lower().endswith(_SQL) and _QUOTE.match(data, behind) is not None


def kind_of(
    name: bytes, value: bytes, *, is_quoted: bool = True, is_given: bool = False
) -> str | None:
    """Return the kind of secret that *value* is after the telling *name*, or None."""
    if not 6 <= len(value) <= _LONGEST_VALUE or is_placeholder(value):
        return None
    parts = words_of(name)
    kind = next((_KINDS[word] for part in reversed(parts) if (word := _word_in(part))), "secret")
    if kind == "password":
        if value.lower() in parts:
            return None  # POSTGRES_PASSWORD=postgres
        is_chosen = looks_chosen(value, is_quoted=is_quoted, is_given=is_given)
        return kind if is_chosen else None
    if (b"aws" in parts and b"secret" in parts) or parts[-3:] == [b"secret", b"access", b"key"]:
        kind = "aws secret key"
    elif b"secret" in parts or (kind == "api key" and b"private" in parts):
        kind = "secret"
    if is_uuid(value):
        is_key = parts[-2:] == [b"api", b"key"] or parts[-1:] == [b"secret"]
        is_key |= parts[-1:] == [b"token"] and not _GRANTING.isdisjoint(parts[-3:-1])
        return kind if is_key or not _ISSUERS_OF_UUIDS.isdisjoint(parts) else None
    if is_hex(value) and len(value) < 24:
        return None
    shortest = _SHORTEST_SECRET if kind == "secret" and is_quoted else _SHORTEST
    return kind if looks_random(value, shortest) else None


def is_secret_name(name: str) -> bool:
    """Return whether *name*, as a key of a document, means that its value is a secret."""
    data = name.encode("utf-8", "replace")
    low = data.lower()
    for pattern, words in _WORDS:
        for match in pattern.finditer(low + b"="):
            word, back = words[(match.lastindex or 1) - 1]
            if match.end() == len(low) + 1:
                return _is_telling(word, data[: match.start() - back], data)
    return False


def words_of(name: bytes) -> list[bytes]:
    """Return the words of a name, in lower case."""
    return [part.lower() for part in _PARTS.findall(name)]


def _is_telling(word: bytes, before: bytes, name: bytes) -> bool:
    parts = words_of(name)
    if name in (b"PWD", b"OLDPWD"):
        return False  # The shell's name for its current directory.
    if word in (b"pass", b"pwd"):
        return b"hashed" not in parts and any(
            part in _SECRETIVE or part.endswith((b"password", b"passwd")) for part in parts
        )
    if any(part in _HARMLESS for part in words_of(before)[-2:]):
        return False
    if word != b"key":
        return True
    if name.upper() == name and len(parts) > 1:
        return True
    near = b"".join(words_of(before)[-2:])
    return near.endswith(_BEFORE_KEY)


def _word_in(part: bytes) -> bytes | None:
    return next((word for word in _KINDS if word in part), None)


def _unescaped(data: bytes, at: int, before: bytes) -> bytes:
    """Drop the letter of an escape, such as a newline's, at the beginning of a name."""
    begin = at - len(before)
    if before and begin > 0 and data[begin - 1] == 0x5C:
        return before[len(found[0]) :] if (found := _ESCAPED.match(before)) else before
    return before


def value_at(data: bytes, at: int, *, is_line: bool) -> tuple[int, int, bool]:
    """Return where the value that begins at *at* starts and ends, and whether it is quoted."""
    quote = _QUOTE.match(data, at)
    if quote is not None:
        end = closing(data, quote.end(), len(quote[1]), quote[2])
        return quote.end(), end, True
    run = (_OF_LINE if is_line else _UNQUOTED).match(data, at, at + _LONGEST_VALUE)
    # Without an end it is not a value.
    end = run.end() if run and run.end() < at + _LONGEST_VALUE else at
    element = data.find(b"</", at, end)
    end = element if element >= 0 else end
    while end > at and data[end - 1] in b".,;:)]}":
        end -= 1
    return at, end, False


def closing(data: bytes, start: int, escapes: int, quote: bytes) -> int:
    """Return where a string ends whose opening quote had *escapes* backslashes before it.

    A quote with more backslashes belongs to the string; one with fewer ends an enclosing string and
    is not crossed. Other quotes than JSON's own never cross one of those.
    """
    stop = min(len(data), start + _LONGEST_VALUE)
    line = data.find(b"\n", start, stop)
    stop = stop if line < 0 else line
    if quote != b'"':
        found = _PLAINLY.match(data, start, stop)
        return found.end() if found else start
    at = start
    escapes = (escapes ^ (escapes + 1)) >> 1  # Further ones are a backslash of the text itself.
    while (at := data.find(quote, at, stop)) >= 0:
        run = at
        while run > start and data[run - 1] == 0x5C:
            run -= 1
        slashes = at - run
        own = escapes
        while True:  # This string, and the enclosing ones.
            if slashes % (2 * own + 2) == own:
                return at - own
            if own == 0:
                break
            own = (own - 1) // 2
        at += 1
    cut = _OF_LINE.match(data, start, stop)  # The text is truncated within it.
    return cut.end() if cut else start
