"""Keys of a known shape: a public prefix, then a number of random characters.

Prefixes that end in ``_``, ``-`` or ``.`` are searched together: wherever such a character is
followed by a long run, the text before it decides which shape it may be. That takes three searches
for any number of shapes. Each other prefix has its own search.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple

from turnlog.redact.false_positives import (
    has_variety,
    is_example,
    is_mixed,
    is_varied,
    looks_random,
)
from turnlog.redact.spans import SecretSpan, places

TAIL: Final = 4
"""How many characters at the end of a long key stay visible, as on its issuer's pages."""
_LONG: Final = 28
_LONGEST: Final = 300

_HEX: Final = rb"[0-9a-f]"
_WORD: Final = rb"[A-Za-z0-9]"
_OPEN: Final = rb"[A-Za-z0-9_-]"


class Shape(NamedTuple):
    """A kind of key: its public prefix, and its pattern."""

    kind: str
    head: bytes
    pattern: bytes
    check: Callable[[bytes], bool] = is_varied


def _shapes(
    kind: str, heads: str, rest: bytes, check: Callable[[bytes], bool] = is_varied
) -> list[Shape]:
    """Return a shape for each of *heads*: the literal, then *rest*, then no further character."""
    return [
        Shape(kind, head, re.escape(head) + rest + rb"(?![A-Za-z0-9_])", check)
        for head in heads.encode().split()
    ]


def _hex(count: int) -> bytes:
    return _HEX + b"{%d}" % count


def _word(least: int, most: int = _LONGEST) -> bytes:
    return _WORD + f"{{{least},{most}}}".encode()


def _open(least: int, most: int = _LONGEST) -> bytes:
    return _OPEN + f"{{{least},{most}}}".encode()


def _ends_varied(value: bytes) -> bool:
    return is_varied(value.rpartition(b"/")[2])


# Heads that are part of other heads come after them.
_BY_MARK: Final = [
    shape
    for row in (
        ("anthropic key", "sk-ant-", rb"[a-z0-9]{2,12}-" + _open(20), looks_random),
        ("anthropic key", "sk-ant-", _open(24), looks_random),
        ("openrouter key", "sk-or-", rb"v1-" + _hex(64)),
        ("openai key", "sk-proj- sk-svcacct- sk-admin-", _open(20), looks_random),
        ("langsmith key", "lsv2_pt_ lsv2_sk_", _hex(32) + rb"_" + _hex(10)),
        ("openai key", "sk-", _word(20) + rb"(?![_-])", looks_random),
        ("groq key", "gsk_", _word(40, 60)),
        ("xai key", "xai-", _word(60, 90), looks_random),
        ("perplexity key", "pplx-", _word(40, 64)),
        ("nvidia key", "nvapi-", _open(50, 80)),
        ("replicate token", "r8_", _word(36, 40)),
        ("hugging face token", "hf_ api_org_", _word(30, 40)),
        ("github token", "ghp_ gho_", _word(36, 251)),
        ("github app token", "ghu_ ghs_ ghr_", _word(36, 251)),
        ("github fine-grained token", "github_pat_", rb"[A-Za-z0-9_]{36,251}"),
        ("gitlab token", "glpat-", rb"[A-Za-z0-9_.-]{20,300}", is_mixed),
        (
            "gitlab token",
            "gldt- glrt- glcbt- glptt- glft- glimt- glagent- glsoat- gloas- glffct-",
            rb"[A-Za-z0-9_.-]{20,300}",
        ),
        (
            "slack token",
            "xoxa- xoxb- xoxc- xoxe- xoxo- xoxp- xoxr- xoxs- xoxd-",
            rb"[A-Za-z0-9-]{16,250}",
        ),
        ("slack token", "xapp-", rb"\d-[A-Za-z0-9-]{20,250}"),
        ("google oauth secret", "GOCSPX-", _open(24, 40)),
        ("google oauth token", "ya29.", rb"[A-Za-z0-9_.-]{20,2000}"),
        ("stripe key", "sk_live_ sk_test_ rk_live_ rk_test_ sk_prod_ rk_prod_", _word(16, 250)),
        ("webhook secret", "whsec_", rb"[A-Za-z0-9+/]{24,64}={0,2}"),
        ("sendgrid key", "SG.", _open(16, 32) + rb"\." + _open(30, 64)),
        ("npm token", "npm_", _word(36)),
        ("pypi token", "pypi-", _open(50, 1000)),
        ("digitalocean token", "dop_v1_ doo_v1_ dor_v1_", _hex(64)),
        ("mailgun key", "key-", _hex(32)),
        ("shopify token", "shpat_ shpca_ shppa_ shpss_", rb"[0-9a-fA-F]{32,64}"),
        ("square token", "sq0atp-", _open(22, 60)),
        ("square secret", "sq0csp-", _open(40, 60)),
        ("brevo key", "xkeysib-", _hex(64) + rb"-" + _word(16)),
        ("notion token", "ntn_", _word(40, 60)),
        ("linear key", "lin_api_", _word(32, 48)),
        ("sentry token", "sntrys_", rb"[A-Za-z0-9+/=_-]{40,500}"),
        ("sentry token", "sntryu_", _hex(64)),
        ("grafana token", "glsa_", _word(32) + rb"_[0-9A-Fa-f]{8}"),
        ("grafana token", "glc_", rb"[A-Za-z0-9+/]{32,400}={0,3}"),
        ("vault token", "hvs. hvb.", _open(24, 300)),
        ("doppler token", "dp.pt.", _word(40, 46)),
        ("dynatrace token", "dt0c01.", rb"[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}"),
        ("pulumi token", "pul-", _hex(40)),
        ("postman key", "PMAK-", _hex(24) + rb"-" + _hex(34)),
        ("new relic key", "NRAK-", rb"[A-Z0-9]{27}"),
        ("rubygems key", "rubygems_", _hex(48)),
        ("planetscale token", "pscale_tkn_ pscale_oauth_", rb"[A-Za-z0-9_.=-]{32,64}"),
        ("planetscale password", "pscale_pw_", rb"[A-Za-z0-9_.=-]{32,64}"),
        ("supabase token", "sbp_", _hex(40)),
        ("supabase key", "sb_secret_", _open(28, 60)),
        ("figma token", "figd_", _open(38, 60)),
        ("fly token", "fo1_", _open(43)),
        ("tailscale key", "tskey-", rb"[a-z]+-" + _open(20, 80), looks_random),
        ("heroku key", "HRKU-", _open(36, 64)),
        ("1password token", "ops_", rb"eyJ[A-Za-z0-9+/=_-]{200,2000}"),
        ("1password key", "A3-", rb"[A-Z0-9]{6}-[A-Z0-9-]{23,30}"),
        ("adobe secret", "p8e-", _word(32)),
        ("bedrock key", "bedrock-api-key-", rb"[A-Za-z0-9+/=]{40,2000}"),
        ("clojars token", "CLOJARS_", _word(60)),
        ("cloudflare key", "v1.0-", _hex(24) + rb"-" + _hex(146)),
        ("dropbox token", "sl.", rb"[A-Za-z0-9_=-]{120,2000}"),
        ("duffel token", "duffel_live_ duffel_test_", rb"[A-Za-z0-9_=-]{40,46}"),
        ("flutterwave key", "FLWSECK_TEST-", rb"[0-9a-h]{12,32}(?:-X)?"),
        ("flutterwave key", "FLWSECK-", rb"[0-9a-h]{32}-X"),
        ("fly token", "fm2_", rb"[A-Za-z0-9+/]{100,2000}={0,3}"),
        ("frame.io token", "fio-u-", rb"[A-Za-z0-9_=-]{64}"),
        ("harness key", "pat. sat.", _open(22) + rb"\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}"),
        ("infracost key", "ico-", _word(32), looks_random),
        ("octopus key", "API-", rb"[A-Z0-9]{25,30}"),
        ("prefect key", "pnu_", _word(36)),
        ("readme key", "rdme_", rb"[a-z0-9]{70}"),
        ("scalingo token", "tk-us-", _open(48)),
        ("settlemint token", "sm_aat_ sm_pat_ sm_sat_", _word(16)),
        ("shippo token", "shippo_live_ shippo_test_", rb"[0-9a-fA-F]{40}"),
        ("sourcegraph token", "sgp_", rb"(?:[0-9a-fA-F]{16}_|local_)?[0-9a-fA-F]{40}"),
        ("terraform token", "atlasv1.", rb"[A-Za-z0-9_=-]{60,70}"),
        ("typeform token", "tfp_", rb"[A-Za-z0-9_.=-]{40,70}"),
        ("age key", "AGE-SECRET-KEY-", rb"1[A-Z0-9]{58}"),
        ("docker token", "dckr_pat_", _open(24, 40)),
    )
    for shape in _shapes(*row)
]
_ALONE: Final = [
    shape
    for row in (
        ("atlassian token", "ATATT3", rb"[A-Za-z0-9_=-]{150,250}"),
        ("aws access key", "AKIA ASIA", rb"[A-Z0-9]{16}"),
        ("aws bedrock key", "ABSK", rb"[A-Za-z0-9+/]{100,280}={0,2}"),
        ("artifactory key", "AKCp", _word(60, 80)),
        ("google api key", "AIza", _open(35)),
        ("twilio key", "SK", rb"[0-9a-fA-F]{32}"),
        ("databricks token", "dapi", _hex(32) + rb"(?:-\d)?"),
        (
            "slack webhook",
            "hooks.slack.com/",
            rb"[a-z]{6,12}/[A-Za-z0-9/_+-]{20,120}",
            _ends_varied,
        ),
        ("discord webhook", "hooks/", rb"\d{15,20}/" + _open(40, 90), _ends_varied),
    )
    for shape in _shapes(*row)
]


def _mark(mark: bytes) -> re.Pattern[bytes]:
    """Return a pattern for *mark* where it may end a head and a long run follows."""
    heads = [shape.head for shape in _BY_MARK if shape.head.endswith(mark)]
    short = b"|".join(re.escape(head) for head in heads if len(head) < 4)
    long = [head for head in heads if len(head) >= 4]
    sets = b"".join(b"[" + bytes({head[at] for head in long}) + b"]" for at in (-4, -3, -2))
    literal = re.escape(mark)
    behind = rb"(?:(?<=" + sets + literal + rb")|(?<=" + short + rb"))"
    return re.compile(literal + behind + rb"(?=[A-Za-z0-9_-]{16})")


_MARKS: Final = (_mark(b"_"), _mark(b"-"))
_DOT: Final = re.compile(
    rb"\.(?=[A-Za-z0-9_-]{16}|[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27}|org/(?:file/)?bot\d)"
)
_BEFORE_MARK: Final[dict[bytes, list[Shape]]] = {}
for _known in _BY_MARK:
    _BEFORE_MARK.setdefault(_known.head[-3:], []).append(_known)
# Heads that share a letter share a search. Each pattern begins with a rare letter of its heads,
# which is so many characters after their beginning.
_SEARCHES: Final = tuple(
    (back, re.compile(pattern), [shape for shape in _ALONE if shape.head.startswith(first)])
    for first, back, pattern in (
        (b"A", 0, rb"A(?:KIA|SIA|BSK|Iza|KCp|TATT3|(?<=:A)A[A-Za-z0-9_-]{33})"),
        (b"S", 0, rb"SK[0-9a-fA-F]{32}"),
        (b"d", 2, rb"pi(?<=dapi)[0-9a-f]{32}"),
        (b"h", 3, rb"ks(?:\.slack\.com/|/\d{15})"),
    )
)


class _Joint(NamedTuple):
    """A kind of key that is recognized by the text on both sides of one character."""

    kind: str
    before: re.Pattern[bytes]
    after: re.Pattern[bytes]
    keeps: bytes = b""


_JWT: Final = _Joint(
    "json web token",
    re.compile(rb"eyJ[A-Za-z0-9_-]{8,1000}\Z"),
    re.compile(rb"\.eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{16,2000}"),
    b"eyJ",
)
_BOT: Final = _Joint(
    "telegram token",
    re.compile(rb"\d{8,10}\Z"),
    re.compile(rb":AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"),
)
# In a bot's address: https://api.telegram.org/bot…/getMe
_BOT_ADDRESS: Final = re.compile(
    rb"\.org/(?:file/)?bot(\d{6,12}:[A-Za-z0-9_-]{30,50})(?![A-Za-z0-9_-])"
)
_DISCORD: Final = _Joint(
    "discord token",
    # A number in base64.
    re.compile(rb"(?:[MNO][DTjz][AEIMQUYcgk][w-z0-5]){5,7}[A-Za-z0-9]{0,3}\Z"),
    re.compile(rb"\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}(?![A-Za-z0-9_-])"),
)
_AZURE: Final = _Joint(
    "azure client secret",
    re.compile(rb"[A-Za-z0-9_~.]{3}\dQ\Z"),
    re.compile(rb"~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~.-])"),
)
_OPENSHIFT: Final = _Joint(
    "openshift token", re.compile(rb"sha256\Z"), re.compile(rb"~[A-Za-z0-9_-]{43}"), b"sha256~"
)
_SIGNED: Final = re.compile(rb"&sig=([A-Za-z0-9+/%]{40,90}={0,2})")
_AWS_SECRET: Final = re.compile(rb"(?<![A-Za-z0-9/+=])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
_HEADER_BYTES: Final = 1000
_NEAR: Final = 160
# What may precede a key although it ends in a letter or digit: an escape, a colour.
_ESCAPED: Final = re.compile(rb"(?:\\[nrtbf]|\\u00[01][0-9a-f]|\[[0-9;]{0,12}[mGHJK])\Z")


def find_shapes(data: bytes) -> Iterator[SecretSpan]:
    """Yield the keys in *data* that have a known shape."""
    for pattern in _MARKS:
        for mark in pattern.finditer(data):
            shapes = _BEFORE_MARK.get(data[mark.start() - 2 : mark.end()])
            if shapes is not None:
                yield from _of_shapes(data, mark.end(), shapes)
    for back, pattern, shapes in _SEARCHES:
        for begin in pattern.finditer(data):
            at = begin.start() - back
            if data[at - 1 : at + 2] == b":AA":
                yield from _joined(data, at - 1, _BOT)
            for found in _of_shapes(data, at, shapes, is_head_ahead=True):
                yield found
                if found.kind == "aws access key":
                    yield from _aws_secret(data, found.end)
    for dot in _DOT.finditer(data):
        yield from _of_shapes(
            data, dot.end(), _BEFORE_MARK.get(data[dot.start() - 2 : dot.end()], ())
        )
        yield from _bot(data, dot.start())
        yield from _joined(data, dot.start(), _JWT)
        yield from _joined(data, dot.start(), _DISCORD)
    for at in places(data, b"~"):
        yield from _joined(data, at, _AZURE)
        yield from _joined(data, at, _OPENSHIFT)
    for at in places(data, b"&"):
        match = _SIGNED.match(data, at)
        if match is not None and looks_random(match[1]):
            yield SecretSpan(
                *match.span(1), "azure signature", b"[redacted azure signature]", match[1], 1
            )


def _of_shapes(
    data: bytes, at: int, shapes: Sequence[Shape], *, is_head_ahead: bool = False
) -> Iterator[SecretSpan]:
    """Return the first of *shapes* that matches where a head ends, or begins, at *at*."""
    for shape in shapes:
        start = at if is_head_ahead else at - len(shape.head)
        if start < 0 or not data.startswith(shape.head, start):
            continue
        match = _compiled(shape.pattern).match(data, start)
        if match is None or not _is_bounded(data, start):
            continue
        value = match[0].rstrip(b"-._") if shape.head[-1:] != b"/" else match[0]
        if shape.check(value[len(shape.head) :]):
            masked = _masked(shape.kind, shape.head, value)
            yield SecretSpan(start, start + len(value), shape.kind, masked, value, 1)
            return


def _joined(data: bytes, at: int, joint: _Joint) -> Iterator[SecretSpan]:
    """Return a key whose prefix is not a literal, by the text after and before *at*."""
    match = joint.after.match(data, at)
    begin = joint.before.search(data[max(0, at - _HEADER_BYTES) : at]) if match else None
    if match is None or begin is None:
        return
    start = at - len(begin[0])
    value = data[start : match.end()]
    if _is_bounded(data, start) and has_variety(match[0]) and not is_example(value):
        masked = _masked(joint.kind, joint.keeps, value)
        yield SecretSpan(start, match.end(), joint.kind, masked, value, 1)


def _bot(data: bytes, at: int) -> Iterator[SecretSpan]:
    """Return the token in the address of a Telegram bot, whose domain ends at *at*."""
    match = _BOT_ADDRESS.match(data, at)
    if match is not None and is_varied(match[1].partition(b":")[2]):
        yield SecretSpan(*match.span(1), _BOT.kind, _masked(_BOT.kind, b"", match[1]), match[1], 1)


def _aws_secret(data: bytes, end: int) -> Iterator[SecretSpan]:
    """Return the secret that belongs to the key id that ends at *end*."""
    match = _AWS_SECRET.search(data, end, end + _NEAR)
    if match is not None and looks_random(match[0]) and not re.fullmatch(rb"[0-9a-f]+", match[0]):
        yield SecretSpan(*match.span(), "aws secret key", b"[redacted aws secret key]", match[0], 1)


@cache
def _compiled(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern)  # Compiled on first use: most are never needed.


def _is_bounded(data: bytes, start: int) -> bool:
    """Return whether a key that begins at *start* is not part of a longer word."""
    if start == 0 or not data[start - 1 : start].isalnum() or data.startswith(b"hooks/", start):
        return True
    return _ESCAPED.search(data[max(0, start - 16) : start]) is not None


def _masked(kind: str, keeps: bytes, value: bytes) -> bytes:
    tail = value[-TAIL:] if len(value) - len(keeps) >= _LONG else b""
    return keeps + "\N{HORIZONTAL ELLIPSIS}".encode() + tail + f"[redacted {kind}]".encode()
