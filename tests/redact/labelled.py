"""Texts with a label: those that hold a secret, and innocent ones that look as if they did.

All of them come from seeded generators. `measure` gives precision and recall of a finder over them;
the tests and ``python -m bench secrets`` use it.
"""

from __future__ import annotations

import json
import random
import string
import uuid
from collections import Counter
from typing import NamedTuple

from redact.planted import BASE64, HEX, KINDS, LETTERS, OPEN, WORD, chosen, plant, some

SEED = 1318
EACH = 12
LOWER = string.ascii_lowercase
WORDS = [
    "maple",
    "harbour",
    "copper",
    "violet",
    "lantern",
    "gravel",
    "otter",
    "willow",
    "cinder",
    "meadow",
    "pepper",
    "saddle",
    "orchid",
    "tundra",
    "falcon",
    "marble",
    "ribbon",
    "walnut",
]
NAMES = [
    "update",
    "upload",
    "ubuntu",
    "utils",
    "user-list",
    "url-parser",
    "undo",
    "unlock",
    "upsert",
    "unzip",
    "ui",
]


# fmt: off
FOREIGN = (
    "Contraseña", "Passwort", "Lösenord", "Hasło", "Jelszó", "Пароль", "パスワード", "密码",
    "Şifre", "Wachtwoord", "Slaptažodis", "Salasana", "Mật-khẩu", "AD/LDAP-lösenord",
)
# fmt: on


class Labelled(NamedTuple):
    """A text, and the secret in it: None if it holds none."""

    category: str
    text: str
    secret: str | None


class Measure(NamedTuple):
    """How well a finder did, with every text that it got wrong."""

    found: int
    missed: list[Labelled]
    false: list[tuple[Labelled, str]]

    @property
    def recall(self):
        return self.found / (self.found + len(self.missed))

    @property
    def precision(self):
        return self.found / (self.found + len(self.false))

    def wrong(self):
        """Count what is wrong by category."""
        missed = Counter(each.category for each in self.missed)
        return missed, Counter(each.category for each, _ in self.false)


def measure(find, texts):
    """Compare *find*, which gives the values that it takes for secrets, with the labels."""
    found, missed, false = 0, [], []
    for each in texts:
        hits = 0
        for value in find(each.text):
            if each.secret is not None and _is_part(value, each.secret):
                hits += 1
            else:
                false.append((each, value))
        if each.secret is not None:
            found += bool(hits)
            missed += [] if hits else [each]
    return Measure(found, missed, false)


def _is_part(value, secret):
    return any(line in value or value in line for line in (secret, *secret.split("\n")) if line)


def word(rng, count=2):
    """A password of letters, as people choose them."""
    return "".join(rng.sample(WORDS, count))


def letters(rng):
    return some(rng, LETTERS, rng.randrange(10, 17))


def password(rng):
    return rng.choice((chosen, word, letters, lambda r: some(r, WORD + "!#%+", 14)))(rng)


def strong(rng):
    return rng.choice((chosen, letters, lambda r: some(r, WORD, 14)))(rng)


def identifier(rng):
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def host(rng):
    return f"{rng.choice(WORDS)}.example.com"


def version(rng):
    return f"{rng.randrange(20)}.{rng.randrange(30)}.{rng.randrange(40)}"


# A text with {} for the secret, and how the secret is made.
SECRETS = {
    "telegram address": (
        lambda r: f"{r.randrange(10**8, 10**10)}:{some(r, OPEN[:-2], 35)}",
        (
            "curl https://api.telegram.org/bot{}/sendMessage -d chat_id=12",
            "const url = `https://api.telegram.org/bot{}/getUpdates`;",
            "https://api.telegram.org/file/bot{}/photos/a.jpg",
        ),
    ),
    "curl --user": (
        password,
        (
            "curl --user admin:{} https://api.example.com/v1",
            "curl -s -X POST --user 'admin:{}' https://api.example.com/v1",
            'curl -H "Accept: text/plain" \\\n  --user "ada:{}" \\\n  https://example.com',
            "curl --proxy-user ada:{} https://example.com",
        ),
    ),
    "curl -u": (
        password,
        (
            "curl -u admin:{} https://api.example.com/v1",
            "curl -sS -uadmin:{} https://api.example.com/v1",
            "curl -sSu admin:{} https://api.example.com/v1",
            '["curl", "-s", "-u", "admin:{}", "https://example.com"]',
        ),
    ),
    "environment": (
        password,
        (
            "DB_PASSWORD={}",
            "export PGPASSWORD={}\npsql -h db",
            "PORT=5432\nDB_PASSWORD={}\nDB_HOST=db",
            "      MYSQL_ROOT_PASSWORD: {}\n      MYSQL_DATABASE: orchard",
            'SMTP_PASSWORD="{}"',
            "docker run -e POSTGRES_PASSWORD={} -d postgres:16",
        ),
    ),
    "short option": (
        password,
        (
            "mysql -h db -u root -p{} orchard",
            "mysqldump -uroot -p'{}' orchard > dump.sql",
            "sshpass -p {} ssh ada@db.example.com",
            "docker login -u ada -p {} registry.example.com",
            "mongosh --host db -u ada -p {} orchard",
            "redis-cli -h cache -a {} ping",
            "ldapsearch -x -D cn=ada -w {} -b dc=example",
        ),
    ),
    "long option": (
        password,
        (
            "login --user ada --password {} --verbose",
            "login --user ada --password={} --verbose",
            "backup --db-password '{}' --all",
        ),
    ),
    "npm token": (
        identifier,
        (
            "//registry.npmjs.org/:_authToken={}",
            "npm config set //npm.example.com/:_authToken={}",
            "@orchard:registry=https://npm.example.com\n//npm.example.com/:_authToken={}\n",
        ),
    ),
    "sentence": (
        strong,
        (
            "The password is {} and it works.",
            "ok, the password for ada is {}",
            "The new admin password is: {}",
            "I set the password to '{}' for now.",
            "password is `{}`.",
        ),
    ),
    ".netrc": (
        password,
        ("machine db.example.com login ada password {}", "machine x\n  login ada\n  password {}\n"),
    ),
    "SQL": (
        password,
        (
            "ALTER USER ada WITH PASSWORD '{}';",
            "CREATE USER 'ada'@'%' IDENTIFIED BY '{}';",
            "CREATE ROLE ada LOGIN ENCRYPTED PASSWORD '{}'",
        ),
    ),
    "connection string": (
        strong,
        (
            "Server=db;Database=orchard;User Id=sa;Password={};Encrypt=true",
            "host=db user=ada password={} dbname=orchard",
            "jdbc:postgresql://db/orchard?user=ada&password={}",
        ),
    ),
    "code": (
        strong,
        (
            "connect(host='db', user='ada', password='{}')",
            'conn := Config{{Host: "db", Password: "{}"}}',
            "define('DB_PASSWORD', '{}');",
            "$config['password'] = '{}';",
            "'password' => '{}',",
            '<property name="password" value="{}"/>',
            "<password>{}</password>",
        ),
    ),
    # A word without any sign that it is a value: mostly missed, since most such words are none.
    "word in a file": (word, ("password: {}", '{{"password": "{}"}}', "the password is {}")),
    "random value": (
        lambda r: some(r, r.choice((HEX, WORD, OPEN[:-2])), r.randrange(32, 64)),
        (
            "WEATHER_API_KEY={}",
            '"clientSecret": "{}"',
            "x-api-key: {}",
            "curl -H 'Authorization: Bearer {}' https://example.com",
            "https://example.com/hook?access_token={}",
            "auth_token: '{}'",
            "The API key is {}",
        ),
    ),
}


def _image(rng):
    name = f"{rng.choice(WORDS)}-{rng.choice(NAMES)}"
    return rng.choice(
        (
            f"docker build -t {name}:{version(rng)}-slim .",
            f"image: registry.example.com/{name}:v{version(rng)}-rc1",
            f"FROM {name}:22.04-slim AS build",
            f"Successfully tagged {name}:{some(rng, HEX, 7)}",
        )
    )


def _grep(rng):
    name = f"{rng.choice(WORDS)}-{rng.choice(NAMES)}"
    code = rng.choice(("const x2 = load()", "export function a1b2()", "import {b3} from 'c4'"))
    return f"src/{name}.ts:{rng.randrange(900)}:{code}"


def _style(rng):
    value = rng.choice(("none", "text", "auto"))
    return (
        f".{rng.choice(WORDS)}-user:before{{content:'\\e{some(rng, HEX, 3)}'}}"
        f"-webkit-user-select:{value};margin-u:{rng.randrange(9)}px"
    )


def _validation(rng):
    rules = ["required", *rng.sample(["string", "min:8", "max:255", "confirmed", "nullable"], 2)]
    return rng.choice(
        (
            f"'password' => '{'|'.join(rules)}',",
            f"'new_password' => ['{rules[0]}', '{rules[1]}'],",
            f"password: z.string().min({rng.randrange(6, 12)}).max(64)",
            f'"password": "{"|".join(rules)}"',
        )
    )


def _artifact(rng):
    a, b = rng.sample(WORDS, 2)
    return rng.choice(
        (
            f"implementation 'org.{a}.{b}:{a}-password:{version(rng)}.RELEASE'",
            f"  password: com.{a}:{b}-password4j:{version(rng)}",
            f'"generate-password": "^{version(rng)}-beta.{rng.randrange(9)}",',
            f'"{a}-tokens": "^{version(rng)} || ^{version(rng)}",',
            f'"@{a}/reset-password": "npm:@{b}/password@{version(rng)}-rc.1"',
            f"[INFO] org.{a}:{a}-auth-token:jar:{version(rng)}:compile",
        )
    )


def _accounts(rng):
    name = rng.choice(WORDS)
    line = f"{name}:x:{rng.randrange(2000)}:{rng.randrange(2000)}:{name}:/home/{name}:/bin/bash"
    return rng.choice((f"/etc/passwd:{line}", f"$ getent passwd {name}\n{line}", f"passwd: {line}"))


def _default(rng):
    name = rng.choice(("DB", "POSTGRES", "REDIS", "SMTP"))
    value = rng.choice(("postgres", "changeme", "password", "root", "secret", rng.choice(WORDS)))
    return rng.choice(
        (
            f"{name}_PASSWORD=${{{name}_PASSWORD:-{value}}}",
            f"POSTGRES_PASSWORD: ${{DB_PASSWORD:-{value}}}",
            f"POSTGRES_PASSWORD: ${{DB_PASSWORD:?{name} password2 is not set}}",
            f"echo ${{{name}_PASSWORD:+x2}}",
        )
    )


def _translation(rng):
    value = rng.choice(FOREIGN)
    key = rng.choice(("password", "login.password", "PASSWORD", "enterPwd"))
    value = rng.choice((value, json.dumps(value)[1:-1], value + "*"))
    return f'{{"{key}": "{value}"}}'


def _empty(rng):
    rest = rng.choice(
        (
            f"MODEL={rng.choice(WORDS)}-4o-2024-08-06",
            f"CLAUDE_CODE_USE_BEDROCK=1 REGION=us-east-{rng.randrange(4)}",
            f"# see https://example.com/{some(rng, HEX, 12)}",
        )
    )
    name = rng.choice(("API_KEY", "OPENAI_API_KEY", "CLIENT_SECRET", "DB_PASSWORD"))
    return rng.choice(
        (f"{name}= {rest}", f"{name}=\n{rest}", f"{name}=''\n{rest}", f"`{name}=` {rest}")
    )


def _code(rng):
    name = rng.choice(WORDS)
    return rng.choice(
        (
            f"const password = {name}Input.current?.value;",
            f"'password' => {name.title()}Cast::class,",
            f"password: !{name}2,",
            f"$args[] = '--password='.${name}['password'];",
            f"password = {name}.get_password(2)",
            f"this.password = {name}2;",
            f"String password = {name}.getPassword1();",
            f"SECRET_KEY = os.environ['{name.upper()}_SECRET_2']",
            f"token = tokens[{rng.randrange(9)}] + {name}_2",
            f"password: str = Field(min_length={rng.randrange(6, 12)})",
            f'ask("Your password: "),{name}2=n.limit;',
            f'e.text(444,"use the token:"),e.k0s(),e.j41({rng.randrange(99)},"span")',
            f"t.password==={name}.options2.password",
            f"DB_PASSWORD=str(self.get({name}_2)),",
            f'pass = "env({name.upper()}_API_KEY_2)"',
            f'secret = "hash:{some(rng, HEX, 64)}"',
            f'$this->password="{name}2@example.com";',
            f"<p>when the password is {name}</p>",
        )
    )


def _about(rng):
    return rng.choice(
        (
            "The password is base64-encoded before it is sent.",
            "the password is required",
            "password is case-sensitive, at least 8-characters",
            "Use the --password option instead of the prompt.",
            "if the token is expired2, pass to `getSession()`",
            f"the api key is read from {rng.choice(WORDS)}.json",
            "Invalid password: must contain 1-number",
            "reset the password to continue",
        )
    )


def _placeholder(rng):
    name = rng.choice(("API_KEY", "DB_PASSWORD", "CLIENT_SECRET", "GITHUB_TOKEN"))
    value = rng.choice(
        (
            f"<your-{rng.choice(WORDS)}-key>", "changeme", f"${{{name}}}", f"$MY_{name}_2",
            "xxxxxxxxxxxxxxxxxxxx", "your-api-key-here-1", "{{ secrets.KEY_2 }}", "********",
            "ghp_" + "FakeTokenForTestingOnlyNotReal" + some(rng, WORD, 10),
        )
    )  # fmt: skip
    return f"{name}={value}"


def _user_option(rng):
    number = rng.randrange(1000, 2000)
    return rng.choice(
        (
            f"docker run -u {number}:{number} {rng.choice(WORDS)}:latest-2",
            f"docker run -p {number}:80 -p 127.0.0.1:{number}:5432 image2",
            f"date -u +%Y-%m-%dT%H:%M:%S.%{number % 9}NZ",
            f"rsync -u {host(rng)}:/srv/{rng.choice(WORDS)}2/ .",
            f"git push -u origin {rng.choice(WORDS)}2:main",
            f"mkdir -p build{number}/out && mysql -u root -p orchard{number}",
            f"ssh -p {number} ada@{host(rng)}",
        )
    )


def _public(rng):
    return rng.choice(
        (
            f"CLERK_PUBLISHABLE_KEY=pk_live_{some(rng, WORD, 30)}",
            f'"public_key": "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A{some(rng, BASE64, 60)}"',
            f"PUBLIC_KEY='ssh-ed25519 AAAAC3NzaC1lZDI1NTE5{some(rng, BASE64, 43)}'",
            f"RECAPTCHA_SITE_KEY=6L{some(rng, OPEN[:-2], 38)}",
            f"gpg --export-secret-keys {some(rng, HEX, 40).upper()}",
        )
    )


def _identifiers(rng):
    return rng.choice(
        (
            f"sessionId: {identifier(rng)}",
            f"commit {some(rng, HEX, 40)}",
            f'"integrity": "sha512-{some(rng, BASE64, 86)}=="',
            f"sha256:{some(rng, HEX, 64)}",
            f"toolu_01{some(rng, WORD, 22)}",
            f'"cacheKey": "{some(rng, HEX, 64)}"',
            f"nextPageToken: {some(rng, WORD, 30)}",
            f"requestToken={identifier(rng)}",
            f"OID_DIGEST_KEY = '1.2.840.{rng.randrange(10**6)}.1.9.4'",
            f"primary_key={some(rng, HEX, 32)}",
        )
    )


def _addresses(rng):
    port = rng.randrange(1000, 9999)
    return rng.choice(
        (
            f"https://{host(rng)}:{port}?email=ada@example.com",
            "postgres://postgres:postgres@localhost:5432/app",
            "postgres://user:my_password@localhost/db",
            f"git@github.com:ada/{rng.choice(WORDS)}.git",
            f"sed 's#://[^:]+:[^@]+@#://***@#' {rng.choice(WORDS)}2.txt",
            f"MYSQL_USER: {(name := rng.choice(WORDS))}\nMYSQL_PASSWORD: {name}",
            f"Authorization: Basic {'dXNlcjpw' + 'YXNzd29yZA'}==",
        )
    )


INNOCENT = {
    "image": _image,
    "grep output": _grep,
    "style sheet": _style,
    "validation rule": _validation,
    "artifact": _artifact,
    "account file": _accounts,
    "shell default": _default,
    "translation": _translation,
    "empty assignment": _empty,
    "program text": _code,
    "text about passwords": _about,
    "placeholder": _placeholder,
    "user option": _user_option,
    "public key": _public,
    "identifier": _identifiers,
    "address": _addresses,
}


def labelled(seed=SEED, each=EACH):
    """The whole set: the same for the same seed."""
    rng = random.Random(seed)
    texts = [
        Labelled(kind, planted.text, planted.secret)
        for kind in KINDS
        for planted in (plant(rng, kind) for _ in range(each // 2))
    ]
    for category, (make, forms) in SECRETS.items():
        for number in range(2 * each):
            secret = make(rng)
            form = forms[number % len(forms)]
            texts.append(
                Labelled(
                    category,
                    form.replace("{{", "{").replace("}}", "}").replace("{}", secret),
                    secret,
                )
            )
    for category, make in INNOCENT.items():
        texts += [Labelled(category, make(rng), None) for _ in range(4 * each)]
    return texts
