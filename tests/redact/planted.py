"""Secrets that were never anybody's: made at random, each with the shape that its kind has.

Nothing here is a whole key: beginnings and alphabets stand apart, so that no scanner takes this
file for a leak. Tests and the benchmark plant them where agents leave such things.
"""

from __future__ import annotations

import base64
import json
import string
import zlib
from typing import NamedTuple

LETTERS = string.ascii_letters
WORD = LETTERS + string.digits
OPEN = WORD + "-_"
BASE64 = WORD + "+/"
HEX = "0123456789abcdef"
SHOUTED = string.ascii_uppercase + string.digits


class Planted(NamedTuple):
    """A secret, and a text in which it stands."""

    kind: str
    secret: str
    text: str


def some(rng, alphabet, count):
    return "".join(rng.choices(alphabet, k=count))


def checked(rng, head):
    """A token whose last six characters are a checksum of the rest, as GitHub and npm make them."""
    body = some(rng, WORD, 30)
    number, digits = zlib.crc32(body.encode()), ""
    while number:
        number, place = divmod(number, 62)
        digits = (string.digits + string.ascii_uppercase + string.ascii_lowercase)[place] + digits
    return f"{head}_{body}{digits:0>6}"


def web_token(rng):
    said = {"sub": some(rng, HEX, 12), "iat": 1760000000 + rng.randrange(10**7)}
    parts = ({"alg": "HS256", "typ": "JWT"}, said)
    coded = [
        base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts
    ]
    return ".".join([*coded, some(rng, OPEN, 43)])


def discord(rng):
    snowflake = base64.b64encode(str(rng.randrange(10**17, 10**18)).encode()).decode().rstrip("=")
    return f"{snowflake}.{some(rng, OPEN, 6)}.{some(rng, WORD, 38)}"


def armoured(rng, what):
    """A private key's lines, without what stands around them."""
    lines = ["MIIE" + some(rng, BASE64, 60), *(some(rng, BASE64, 64) for _ in range(6))]
    lines.append(some(rng, BASE64, 22) + "==")
    begin, end = (f"-----{word} {what}-----" for word in ("BEGIN", "END"))
    return begin, lines, end


def chosen(rng):
    """A password as people choose them."""
    words = rng.sample(["maple", "Harbour", "copper", "Violet", "lantern", "Gravel", "otter"], 2)
    return words[0] + rng.choice("!#-_%") + words[1] + str(rng.randrange(10, 9999))


# Keys that are known by their shape wherever they stand.
SHAPES = {
    "anthropic": lambda r: "-".join(["sk", "ant", "api03", some(r, OPEN, 93) + "AA"]),
    "anthropic oauth": lambda r: "-".join(["sk", "ant", "oat01", some(r, OPEN, 86) + "AA"]),
    "openai": lambda r: f"sk-{some(r, WORD, 20)}T3Blbk{'FJ'}{some(r, WORD, 20)}",
    "openai project": lambda r: f"sk-proj-{some(r, OPEN, 74)}T3Blbk{'FJ'}{some(r, WORD, 58)}",
    "aws": lambda r: "AK" + "IA" + some(r, SHOUTED, 16),
    "github": lambda r: checked(r, "gh" + "p"),
    "github app": lambda r: checked(r, "gh" + "s"),
    "github fine-grained": lambda r: f"github_{'pat'}_{some(r, WORD, 22)}_{some(r, WORD, 59)}",
    "gitlab": lambda r: f"gl{'pat'}-{some(r, OPEN[:-2], 20)}",
    "slack bot": lambda r: (
        f"xox{'b'}-{r.randrange(10**11, 10**12)}-{r.randrange(10**11, 10**12)}-" + some(r, WORD, 24)
    ),
    "slack webhook": lambda r: (
        f"https://hooks.{'slack'}.com/services/T{some(r, SHOUTED, 8)}/"
        f"B{some(r, SHOUTED, 10)}/{some(r, WORD, 24)}"
    ),
    "google": lambda r: "AI" + "za" + some(r, OPEN[:-2], 35),
    "google oauth": lambda r: "GOC" + "SPX-" + some(r, WORD, 28),
    "stripe": lambda r: f"sk_{'live'}_{some(r, WORD, 24)}",
    "stripe restricted": lambda r: f"rk_{'live'}_{some(r, WORD, 99)}",
    "twilio": lambda r: "S" + "K" + some(r, HEX, 32),
    "sendgrid": lambda r: f"S{'G'}.{some(r, WORD, 22)}.{some(r, OPEN[:-2], 43)}",
    "npm": lambda r: checked(r, "np" + "m"),
    "pypi": lambda r: f"py{'pi'}-AgEIcHlwaS5vcmc{some(r, WORD, 120)}",
    "hugging face": lambda r: f"h{'f'}_{some(r, LETTERS, 34)}",
    "digitalocean": lambda r: f"do{'p'}_v1_{some(r, HEX, 64)}",
    "databricks": lambda r: "da" + "pi" + some(r, HEX, 32),
    "mailgun": lambda r: f"ke{'y'}-{some(r, HEX, 32)}",
    "shopify": lambda r: f"shp{'at'}_{some(r, HEX, 32)}",
    "square": lambda r: f"sq0{'atp'}-{some(r, WORD, 22)}",
    "telegram": lambda r: f"{r.randrange(10**9, 10**10)}:{'A' * 2}{some(r, OPEN[:-2], 33)}",
    "discord": discord,
    "json web token": web_token,
    "vault": lambda r: f"hv{'s'}.{some(r, OPEN[:-2], 90)}",
    "groq": lambda r: f"gs{'k'}_{some(r, WORD, 52)}",
    "linear": lambda r: f"lin_{'api'}_{some(r, WORD, 40)}",
}
# Values that only the name beside them gives away.
NAMED = {
    "aws secret": ("AWS_SECRET_ACCESS_KEY", lambda r: some(r, BASE64, 40)),
    "azure storage": ("AccountKey", lambda r: some(r, BASE64, 86) + "=="),
    "api key": ("WEATHER_API_KEY", lambda r: some(r, HEX, 32)),
    "token": ("deployToken", lambda r: some(r, WORD, 40)),
    "secret": ("client_secret", lambda r: some(r, OPEN[:-2], 36)),
    "password": ("DB_PASSWORD", chosen),
    "password of a service": ("smtpPassword", lambda r: some(r, WORD, 12) + "!7a"),
}
SAID_ALONE = (
    "The key is {} and it works.",
    "{}",
    "$ curl -s -H 'X-Key: {}' https://api.example.com/v1/things | jq .",
    "config.yaml:\n  first: 1\n  value: {}\n  last: 2\n",
    'const client = new Client("{}");',
    "     3→KEY={}\n     4→PORT=8080",
    "\x1b[32m{}\x1b[0m was printed in green",
)
SAID_NAMED = (
    "{name}={value}",
    "export {name}={value}\nexport PORT=8080",
    '{{"host": "db.example.com", "{name}": "{value}", "port": 5432}}',
    "{name}: {value}\nport: 5432",
    "const {name} = '{value}';",
    "     3→{name}={value}\n     4→PORT=8080",
)


def plant(rng, kind):
    """Make a secret of *kind* and say it somewhere."""
    if kind in SHAPES:
        secret = SHAPES[kind](rng)
        return Planted(kind, secret, rng.choice(SAID_ALONE).replace("{}", secret))
    if kind in NAMED:
        name, make = NAMED[kind]
        secret = make(rng)
        return Planted(kind, secret, rng.choice(SAID_NAMED).format(name=name, value=secret))
    return OTHERS[kind](rng, kind)


def _private_key(rng, kind):
    begin, lines, end = armoured(
        rng, "PRIVATE KEY" if kind == "private key" else "OPENSSH PRIVATE KEY"
    )
    return Planted(kind, "\n".join(lines), "\n".join([begin, *lines, end]))


def _numbered_key(rng, kind):
    """A key as a tool reads it to an agent: with the number of each line."""
    begin, lines, end = armoured(rng, "RSA PRIVATE KEY")
    numbered = "\n".join(f"{n:6}→{line}" for n, line in enumerate([begin, *lines, end], 1))
    return Planted(kind, lines[2], numbered)


def _bearer(rng, kind):
    secret = some(rng, OPEN[:-2], 40)
    return Planted(kind, secret, f'curl -H "Authorization: Bearer {secret}" https://example.com')


def _basic(rng, kind):
    secret = base64.b64encode(f"ada:{chosen(rng)}".encode()).decode()
    return Planted(kind, secret, f"> Authorization: Basic {secret}\n> Accept: */*")


def _url(rng, kind):
    secret = some(rng, WORD, 14)
    return Planted(
        kind, secret, f"DATABASE_URL=postgres://ada:{secret}@db.example.com:5432/orchard"
    )


def _flag(rng, kind):
    secret = chosen(rng)
    return Planted(kind, secret, f"$ login --user ada --password {secret} --verbose")


def _user(rng, kind):
    secret = chosen(rng)
    return Planted(kind, secret, f"$ curl -u ada:{secret} https://example.com/private")


OTHERS = {
    "private key": _private_key,
    "openssh key": _private_key,
    "numbered key": _numbered_key,
    "bearer": _bearer,
    "basic auth": _basic,
    "url password": _url,
    "password option": _flag,
    "user and password": _user,
}
KINDS = (*SHAPES, *NAMED, *OTHERS)


def survives(secret, text):
    """Tell whether so much of *secret* is left in *text* that it is worth something."""
    for line in secret.split("\n"):
        if len(line) <= 12:
            if line in text:
                return True
            continue
        # A public beginning and the last four characters may stay; a stretch of ten more may not.
        pieces = (line[at : at + 12] for at in range(len(line) - 11))
        if any(piece in text for piece in pieces if not _is_public(piece)):
            return True
    return False


def _is_public(piece):
    return any(
        piece in public
        for public in (
            "https://hooks.slack.com/services/T",
            "sk-ant-api03-",
            "github_pat_",
            "pypi-AgEIcHlwaS5vcmc",
        )
    )
