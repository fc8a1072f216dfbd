"""Redaction under attack: no secret survives, nothing else changes, JSON stays JSON."""

from __future__ import annotations

import json
import os
import random
import urllib.parse
import uuid
from pathlib import Path
from time import thread_time

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from records.samples import CLAUDE
from redact.planted import (
    BASE64,
    HEX,
    KINDS,
    NAMED,
    OPEN,
    SHAPES,
    WORD,
    armoured,
    plant,
    some,
    survives,
)
from sampling import sampled
from turnlog.redact import find_secrets, key_shapes, redact, redact_line, redact_value

CORPUS = Path(
    os.environ.get("TURNLOG_CORPUS") or Path(__file__).parents[3] / "shared/corpus/claude"
)
seeds = st.integers(0, 2**32).map(random.Random)
# What stands around a secret without being a part of it.
around = st.text(alphabet=st.sampled_from(" \n\t\"'.,;(){}[]<>é→日🚀\\"), max_size=8)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=3)
@given(rng=seeds)
def test_secrets_of_every_kind_are_masked_wherever_text_goes(kind, rng):
    planted = [plant(rng, kind) for _ in range(40)]
    ways = (
        redact,
        lambda text: redact(text.encode()).decode(),
        lambda text: json.loads(redact_line(json.dumps({"text": text}).encode()))["text"],
        lambda text: redact_value({"text": [text]})["text"][0],
    )
    for way in ways:
        # Once in ten thousand times chance makes a value that looks like words.
        assert sum(survives(each.secret, way(each.text)) for each in planted) <= 1


def planted_well(rng, kind):
    """A secret that is masked where it stands plainly, whatever happens to it elsewhere."""
    planted = plant(rng, kind)
    assume(not survives(planted.secret, redact(planted.text)))
    return planted


@given(rng=seeds, before=around, after=around, kind=st.sampled_from(KINDS))
def test_masking_again_changes_nothing_and_what_stands_around_stays(rng, before, after, kind):
    planted = planted_well(rng, kind)
    text = f"{before} {planted.text} {after}"
    masked = redact(text)
    assert masked != text
    assert redact(masked) == masked
    kept = [
        text[last:first]
        for last, first in zip([0, *ends(text)], [*starts(text), None], strict=True)
    ]
    assert "".join(kept) == "".join(pieces_outside(masked, text))


def starts(text):
    return [each.start for each in find_secrets(text)]


def ends(text):
    return [each.end for each in find_secrets(text)]


def pieces_outside(masked, text):
    """What *masked* has beside its masks, which are those that *text* asks for."""
    at = 0
    for secret in find_secrets(text):
        place = masked.index(secret.masked, at)
        yield masked[at:place]
        at = place + len(secret.masked)
    yield masked[at:]


@given(text=st.text(max_size=300))
def test_any_text_is_masked_once(text):
    masked = redact(text)
    assert redact(masked) == masked


@given(data=st.binary(max_size=300))
@example(b'password="\\')
@example(b"\\u002")
@example(b"@://a:b@")
@example(b"%2")
@example(b"-----BEGIN PRIVATE KEY-----")
def test_any_bytes_are_survived(data):
    assert redact(redact(data)) == redact(data)


def fields(value, path=()):
    """Every place of a text in plain JSON."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from fields(each, (*path, key))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from fields(each, (*path, number))


def put(value, path, text):
    head, *rest = path
    copy = value.copy()
    copy[head] = put(value[head], rest, text) if rest else text
    return copy


PLACES = [(name, path) for name, record in CLAUDE.items() for path in fields(record)]


@given(rng=seeds, place=st.sampled_from(PLACES), kind=st.sampled_from(KINDS), ascii_=st.booleans())
def test_no_secret_survives_in_any_field_of_any_record(rng, place, kind, ascii_):
    planted = planted_well(rng, kind)
    name, path = place
    record = put(CLAUDE[name], path, planted.text)
    line = json.dumps(record, ensure_ascii=ascii_).encode()
    masked = redact_line(line)
    told = json.loads(masked)  # It is still JSON, and of the same shape.
    assert list(fields(told)) == list(fields(record))
    assert not survives(planted.secret, json.dumps(told, ensure_ascii=False))
    assert not survives(planted.secret, json.dumps(redact_value(record), ensure_ascii=False))


@given(rng=seeds, kind=st.sampled_from(KINDS), depth=st.integers(1, 3))
def test_json_within_json_is_masked_and_stays_json(rng, kind, depth):
    planted = planted_well(rng, kind)
    line = planted.text
    for _ in range(depth):
        line = json.dumps({"inner": line, "next": 'a "quote" and a \\ backslash'})
    masked = redact_line(line.encode()).decode()
    for _ in range(depth):
        masked = json.loads(masked)
        assert masked["next"] == 'a "quote" and a \\ backslash'
        masked = masked["inner"]
    assert not survives(planted.secret, masked)


def in_json(text, rng):
    """Write some characters the long way, as JSON allows."""
    return "".join(f"\\u{ord(c):04x}" if rng.random() < 0.3 else c for c in text)


def in_url(text, rng):
    return "".join(
        f"%{ord(c):02X}" if rng.random() < 0.3 else urllib.parse.quote(c, safe="") for c in text
    )


@pytest.mark.parametrize("write", [in_json, in_url])
@pytest.mark.parametrize("kind", sorted(set(SHAPES) - {"slack webhook"}))
@settings(max_examples=8)
@given(rng=seeds)
def test_a_key_that_is_escaped_is_a_key(write, kind, rng):
    secret = SHAPES[kind](rng)
    assume(redact(secret) != secret)
    written = write(secret, rng)
    line = f'{{"text": "it is {written} today"}}'
    masked = redact_line(line.encode())
    said = json.loads(masked)["text"]
    assert said.startswith("it is ")
    assert said.endswith(" today")
    assert not survives(secret, urllib.parse.unquote(said))
    assert [each.digest for each in find_secrets(line)] == [
        each.digest for each in find_secrets(secret)
    ]


def test_of_a_key_that_is_partly_escaped_the_whole_is_found():
    secret = "xoxb-154879766906-282558838986-wYPsf9ZsFRM5BgKqlDWmRJSL"
    written = json.dumps(secret).replace("282558", "282\\u003558").replace("-wY", "\\u002dwY")
    assert json.loads(written) == secret
    (found,) = find_secrets(written)
    assert found.digest == next(find_secrets(secret)).digest


def test_a_dash_that_json_wrote_as_an_escape():
    rng = random.Random(7)
    secret = SHAPES["anthropic"](rng)
    line = json.dumps({"key": secret}).replace("-", "\\u002d").encode()
    assert not survives(secret, json.loads(redact_line(line))["key"])


@given(rng=seeds, name=st.sampled_from(["password", "Password", "DB_PASSWORD", "user-password"]))
def test_passwords_with_quotes_and_backslashes_leave_json_whole(rng, name):
    secret = some(rng, WORD, 6) + some(rng, "\"\\'!#", 4) + some(rng, WORD, 6)
    for depth in range(3):
        line = {name: secret, "after": "x"}
        for _ in range(depth):
            line = {"inner": json.dumps(line), "after": "y"}
        masked = json.loads(redact_line(json.dumps(line).encode()))
        for _ in range(depth):
            masked = json.loads(masked["inner"])
        assert masked == {name: "[redacted password]", "after": "x"}


@given(rng=seeds)
def test_innocent_things_are_left_alone(rng):
    innocent = {
        "uuid": str(uuid.UUID(int=rng.getrandbits(128), version=4)),
        "sha": some(rng, HEX, 40),
        "digest": "sha256:" + some(rng, HEX, 64),
        "id": "toolu_01" + some(rng, WORD, 22),
        "message": {"id": "msg_01" + some(rng, WORD, 22), "stop_reason": None},
        "requestId": "req_011C" + some(rng, WORD, 20),
        "signature": some(rng, BASE64, 700) + "==",
        "thinkingMetadata": {"maxThinkingTokens": 31999},
        "source": {
            "type": "base64",
            "media_type": "image/png",
            "data": "iVBOR" + some(rng, BASE64, 3000),
        },
        "url": f"https://example.com/{some(rng, HEX, 32)}?page_token={some(rng, OPEN, 40)}",
        "text": f"See {some(rng, HEX, 40)} in claude-opus-4-5-20251101, task-{some(rng, HEX, 8)}.",
        "usage": {"input_tokens": rng.randrange(10**6), "cache_read_input_tokens": 12},
        "cacheKey": some(rng, HEX, 64),
        "public_key": some(rng, BASE64, 44),
        "integrity": "sha512-" + some(rng, BASE64, 86) + "==",
        "etag": f'W/"{some(rng, WORD, 27)}"',
    }
    line = json.dumps(innocent).encode()
    assert [(each.kind, line[each.start : each.end]) for each in find_secrets(line)] == []
    assert redact_line(line) == line
    assert redact_value(innocent) == innocent


@pytest.mark.parametrize(
    "text",
    [
        "AKIA" + "IOSFODNN7" + "EXAMPLE",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY",
        "API_KEY=xxxxxxxxxxxxxxxxxxxxxxxx",
        "API_KEY=<your-key>",
        "API_KEY=<your-api-key-goes-here-1>",
        "API_KEY=${VAR}",
        "API_KEY=$OTHER_API_KEY_2",
        "API_KEY={{ secrets.API_KEY_1 }}",
        "API_KEY=changeme",
        "password: changeme",
        'password = os.environ["DB_PASSWORD1"]',
        "password = getpass.getpass()",
        "const password = req.body.password1;",
        "password: z.string().min(8)",
        '"password": "Enter your password"',
        "--password $DB_PASSWORD",
        "token: string;",
        "token = self.tokens[0]",
        "max_tokens=4096",
        "sk-" + "ant-api03-your-key-here-your-key-here",
        "sk-" + "ant-xxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "ghp_" + "x" * 36,
        "ghp_" + "0" * 36,
        "task-notification-and-some-other-words-2",
        "postgres://user:password@localhost/db",
        "postgres://postgres:postgres@localhost:5432/app",
        "postgres://ada:***@host/db",
        "redis://:${REDIS_PASSWORD}@redis:6379",
        "Authorization: Bearer <token>",
        "Authorization: Bearer $TOKEN",
        "--- PASS: TestReads_Everything/case-2 (0.00s)",
        "PASS: TestReads2_Everything/case-2",
        "PWD=/home/ada/orchard-2",
        "docker run -u 1000:1000 image:latest-2",
        "docker run -p 8080:80 -p 127.0.0.1:5432:5432 image",
        "mysql -u root -p orchard2024",
        "mysql -u root -p$MYSQL_PASSWORD orchard",
        "mysql -u root; mkdir -p build2/out3",
        "sshpass -e ssh ada@db && mkdir -p build2/out3",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        'if "-----BEGIN RSA PRIVATE KEY-----" in text:',
        "-----BEGIN PUBLIC KEY-----\n" + "MIIB" * 20 + "\n-----END PUBLIC KEY-----",
        "git@github.com:ada/orchard.git",
        "primary_key=ab12cd34ef56ab12cd34ef56ab12cd34",
        "nextPageToken: CiAKGjBpNDd2Nmp2Zml2cXRwYjBpOXA",
        "docker pull my-ubuntu:22.04-slim",
        "allowlist-update.ts:47:const",
        "image: web-ui:v1.2.3-rc1",
        "'password' => 'required|string'",
        "testImplementation 'org.orchard:reset-password:5.7.1.RELEASE'",
        '"generate-password": "1.7.0-beta.2"',
        "/etc/passwd:ada:x:1000:1000:Ada:/home/ada:/bin/bash",
        "POSTGRES_PASSWORD: ${DB_PASSWORD:-postgres}",
        '"password": "Contraseña"',
        "API_KEY= MODEL=orchard-4o-2024-08-06 ./run",
        "MYSQL_USER: orchard\nMYSQL_PASSWORD: orchard",
        "date -u +%Y-%m-%dT%H:%M:%S.%6NZ",
    ],
)
def test_examples_and_placeholders_and_code_are_no_secrets(text):
    assert redact(text) == text
    assert (
        redact_line(json.dumps({"content": text}).encode())
        == json.dumps({"content": text}).encode()
    )


def test_masks_show_what_helps_to_recognise_a_key_and_nothing_more():
    rng = random.Random(5)
    key = SHAPES["anthropic"](rng)
    assert redact(f"x {key}.") == f"x sk-ant-…{key[-4:]}[redacted anthropic key]."
    assert redact(f"{key}\n{key}").split("\n")[0] == redact(key)
    assert redact("postgres://ada:s0mething@db/x") == "postgres://ada:***@db/x"
    assert redact('{"password": "hunter2!"}') == '{"password": "[redacted password]"}'


def test_a_private_key_keeps_its_armour_and_its_line_numbers():
    begin, lines, end = armoured(random.Random(3), "EC PRIVATE KEY")
    assert redact("\n".join([begin, *lines, end])) == f"{begin}\n[redacted private key]\n{end}"
    numbered = "\n".join(f"{n:6}→{line}" for n, line in enumerate([begin, *lines, end], 1))
    masked = redact(numbered)
    assert [line.partition("→")[0] for line in masked.split("\n")] == [
        line.partition("→")[0] for line in numbered.split("\n")
    ]
    assert masked.count("[redacted private key]") == 1
    cut = "\n".join([begin, *lines[:4]])
    assert redact(cut) == f"{begin}\n[redacted private key]"
    pasted = '"' + '\\n" +\n  "'.join([begin, *lines, end]) + '"'
    assert redact(pasted).count('"') == pasted.count('"')
    assert not survives("\n".join(lines), redact(pasted))


@pytest.mark.parametrize(
    "said",
    [
        '{{"name":"DB_PASSWORD","value":"{}"}}',
        '{{\n  "Name": "deployToken",\n  "Value": "{}"\n}}',
        "env:\n- name: DB_PASSWORD\n  value: {}\n- name: PORT\n  value: 8080",
        '<add key="DbPassword" value="{}" />',
        "- **Password:** `{}`\n- **Port:** 8080",
        "- **Password**: `{}`",
    ],
)
def test_a_variable_in_a_list_is_told_by_its_name(said):
    secret = some(random.Random(13), WORD, 20)
    text = said.format(secret)
    wrapped = json.dumps({"a": [text]})
    for written in (text, wrapped, json.dumps(wrapped)):
        masked = redact(written)
        assert secret not in masked
        assert masked.count("[redacted") == 1
        assert written is text or json.loads(masked)
    document = {"env": [{"name": "DB_PASSWORD", "value": secret}, {"name": "PORT", "value": "80"}]}
    assert secret not in str(redact_value(document))
    assert redact_value(document)["env"][1] == {"name": "PORT", "value": "80"}


@pytest.mark.parametrize(
    "said",
    [
        "mysql -h db -u root -p{} orchard",
        "$ mysqldump --single-transaction -uroot -p'{}' orchard > dump.sql",
        'docker exec db mariadb-admin -u root -p"{}" status',
        "sshpass -p {} ssh ada@db.example.com",
        'echo "a" && sshpass -p "{}" scp x y:',
        "docker login -u ada -p {} registry.example.com",
    ],
)
def test_a_password_is_told_by_the_program_that_takes_it(said):
    secret = "maple" + some(random.Random(15), WORD, 9)
    for written in (said.format(secret), json.dumps({"command": said.format(secret)})):
        assert redact(written) == written.replace(secret, "[redacted password]")


def test_a_key_behind_what_clears_the_line_is_a_key():
    key = SHAPES["github"](random.Random(14))
    for text in (f"\x1b[01;31m\x1b[K{key}\x1b[m\x1b[K", f"\x1b[2J{key}"):
        assert key not in redact(text)
        assert key not in redact_line(json.dumps([text]).encode()).decode()


BEFORE_EACH_LINE = (
    "+", "conf/key.pem:", "conf/key.pem:12:", "web-1  | ", "2026-11-01T10:00:00Z ", "<br>",
    "\x1b[32m+\x1b[m", "$ ",
)  # fmt: skip


@pytest.mark.parametrize("before", BEFORE_EACH_LINE)
def test_a_private_key_is_masked_whatever_a_tool_sets_before_its_lines(before):
    begin, lines, end = armoured(random.Random(7), "RSA PRIVATE KEY")
    printed = [f"{before}{line}" for line in (begin, *lines, end)]
    text = "\n".join(["Before Harbour7copper9xGravel", *printed, "After Harbour7copper9xGravel"])
    # As a text, as the lines of a change or a cell of a notebook, and in a record.
    documents = ({"text": text}, {"lines": printed}, {"cell": {"source": printed}})
    for document in documents:
        line = json.dumps({"a": document, "b": "Harbour7copper9xGravel"}).encode()
        masked = redact_line(line)
        assert not [each for each in lines if survives(each, masked.decode())]
        assert json.loads(masked)["b"] == "Harbour7copper9xGravel"
        again = json.dumps(redact_value(document))
        assert not [each for each in lines if survives(each, again)]
    masked = redact(text)
    assert not [each for each in lines if survives(each, masked)]
    for kept in ("Before Harbour7copper9xGravel\n", "\nAfter Harbour7copper9xGravel", begin, end):
        assert kept in masked
    assert redact(masked) == masked


def test_what_stands_between_a_key_and_the_end_of_another_is_no_key():
    begin, lines, end = armoured(random.Random(8), "PRIVATE KEY")
    said = "(the function parseHarbour7Copper9 of src/otter/Gravel42/main and " + "aB3" * 20
    text = "\n".join([begin, *lines, "", said, begin, *lines, end])
    assert said in redact(text)


def test_many_beginnings_of_keys_take_no_longer_than_other_text():
    for piece in (
        "-----BEGIN RSA PRIVATE KEY-----\n",
        f"-----BEGIN PRIVATE KEY-----\n{'aB3' * 20}\nx ",
    ):
        assert any(_taken(piece * (500_000 // len(piece))) < 5 for _ in range(3))


def test_the_same_secret_has_one_digest_however_it_stands():
    rng = random.Random(11)
    begin, lines, end = armoured(rng, "PRIVATE KEY")
    plain = "\n".join([begin, *lines, end])
    numbered = "\n".join(f"{n:6}→{line}" for n, line in enumerate([begin, *lines, end], 1))
    texts = (plain, json.dumps({"a": plain}), json.dumps(json.dumps([numbered])))
    assert len({each.digest for text in texts for each in find_secrets(text)}) == 1


def test_places_count_characters_in_text_and_bytes_in_bytes():
    secret = SHAPES["github"](random.Random(2))
    text = f"é日🚀 {secret} 🚀 {secret}"
    for found in find_secrets(text):
        assert text[found.start : found.end] == secret
    data = text.encode()
    for found in find_secrets(data):
        assert data[found.start : found.end] == secret.encode()
    assert redact("\ud800 " + secret).startswith("\ud800 ghp_…")


def test_a_document_is_masked_by_the_names_of_its_fields():
    rng = random.Random(4)
    _, make = NAMED["token"]
    document = {
        "apiToken": make(rng),
        "password": "hunter2!",
        "count": 3,
        "cacheKey": some(rng, HEX, 32),
    }
    masked = redact_value({"list": [document], "n": None})["list"][0]
    assert masked == {
        "apiToken": "[redacted token]",
        "password": "[redacted password]",
        "count": 3,
        "cacheKey": document["cacheKey"],
    }


HOSTILE = (
    " -u a:b",
    "curl ",
    " -pabcdef",
    "password is ",
    "identified by '",
    "telegram.org/bot",
    "a|b",
    "a:1:",
    "-",
    "_",
    ".",
    "a-",
    "key=",
    "A",
    "\\",
    '\\"',
    "%41",
    "\\u0041",
    "://a:",
    "@",
    "eyJ.",
    "&sig=",
    "~",
    "token=a",
    'password="',
    "1",
    " ",
    "-----BEGIN PRIVATE KEY-----",
    "a.b",
    "aB",
    "\n",
    "/",
    "sk-ant-",
)


@pytest.mark.parametrize("piece", sampled(HOSTILE, 3))
@pytest.mark.parametrize(
    "before",
    sampled(["", "api_key=", 'secret: "', "Bearer ", "-----BEGIN PRIVATE KEY-----", "://u:"], 3),
)
def test_no_text_takes_long(before, piece):
    short, long = (before + piece * (size // len(piece)) + "!" for size in (12_500, 50_000))
    # A pattern that goes back over what it has read takes sixteen times as long, not four.
    assert any(_taken(long) < 10 * max(_taken(short), 0.005) for _ in range(3))


def _taken(text):
    began = thread_time()
    redact(text)
    return thread_time() - began


def test_every_kind_is_in_the_documents():
    told = (Path(__file__).parents[2] / "docs" / "guides" / "secrets.md").read_text("utf-8")
    for shape in (*key_shapes._BY_MARK, *key_shapes._ALONE):
        assert f"| {shape.kind} |" in told
        assert f"`{shape.head.decode()}`" in told


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
def test_real_logs_hold_at_most_one_false_hit_in_a_megabyte():
    found, size_bytes = [], 0
    for path in sorted(CORPUS.rglob("*.jsonl"))[::6]:
        data = path.read_bytes()
        size_bytes += len(data)
        found += [(path.name, each.kind, each.masked) for each in find_secrets(data)]
    assert size_bytes > 1_000_000
    assert len(found) <= size_bytes / 1e6, found[:20]
