"""Every tool there is, asked by the official client with calls that its schema allows.

Nothing here names a tool: what is registered is what is tried. An answer is framed, small, and
without secrets, active characters and other projects; an error says what to do, and no more.
"""

import json
import re
import traceback
from dataclasses import replace
from itertools import islice

import anyio
import jsonschema
import pydantic
import pytest

from mcp import Client
from mcp_contexts import ACTING, HUSHED, ONE, ORCHARD, ORDER, OUT, OUTSIDE, PASSWORD, SECRET
from redact import planted
from turnlog.mcp.context import Settings, ToolContext
from turnlog.mcp.server import make_server
from turnlog.mcp.tools import TOOLS
from turnlog.mcp.untrusted_text import NOTICE, unframed

NAMES = [tool.name for tool in TOOLS]
# What a string may mean, by the name of its argument; others are tried with all of these.
SENSIBLE = {
    "session": [ONE, "latest", "1111"],
    "project": [ORCHARD, ".", "press"],
    "since": ["2026-01-01", "7d"],
    "until": ["2027-01-01"],
    "query": ["apples", "apples pears", "tool:Bash", '"seven apples"'],
    "resource": ["messages", "records", "tools"],
    "record": ["00000001-1111-4000-8000-000000000001"],
    "zone": ["Europe/Berlin"],
}
ANY_STRING = ["apples", "Bash", ONE, ".", "*", "", "' OR 1=1 --", "x" * 5_000, ORDER, "\x00", "é"]
OBJECTS = [
    {},
    {"role": "user"},
    {"role": "user", "project": OUTSIDE},
    {"session_id": OUT},
    {"content_match": HUSHED},
    {"content_match": "apples"},
    {"tool_name": "Bash"},
    {"group_by": "session_id"},
    {"group_by": "project"},
    {"group_by": "tool_name"},
    {"function": "count", "field": "session_id"},
    {"extract": ["text", "session_id", "project"]},
    {"limit": 10**9},
    {"limit": 3, "offset": 1},
    {"format": "tsv"},
    {"format": "summary"},
    {"nobody": "knows this"},
]


def alternatives(schema):
    """The plain schemas that a parameter may fit."""
    if "$ref" in schema:
        return []
    return schema.get("anyOf", [schema])


def values_of(name, schema):
    """Values that a parameter's schema allows, and some at its edges and beyond."""
    for each in alternatives(schema):
        if "enum" in each or "const" in each:
            yield from each.get("enum", [each.get("const")])
            continue
        match each.get("type"):
            case "boolean":
                yield from (True, False)
            case "integer" | "number":
                least, most = each.get("minimum", 0), each.get("maximum", 1_000)
                yield from (least, most, (least + most) // 2, least - 1, most + 1, 0, -1, 10**9)
            case "string":
                yield from SENSIBLE.get(name, ())
                yield from (OUT, OUTSIDE, HUSHED, "../../etc/passwd", *ANY_STRING)
            case "array":
                inner = list(values_of(name, each.get("items", {"type": "string"})))
                yield from ([], *([each] for each in inner[:20]), inner[:3])
            case "object":
                yield from OBJECTS
            case "null":
                yield None
            case _:
                yield from ("apples", OUT, 3, {}, [])


def required(tool):
    """The arguments that a tool must have, with values that make sense."""
    schema = tool.input_schema
    return {
        name: next(iter(SENSIBLE.get(name) or values_of(name, schema["properties"][name])))
        for name in schema.get("required", [])
    }


def calls_of(tool):
    """Calls of a tool: its required arguments, then each argument in turn with all its values."""
    basic = required(tool)
    yield basic
    for name, schema in tool.input_schema["properties"].items():
        for value in values_of(name, schema):
            yield basic | {name: value}


def few_calls_of(tool):
    """The calls that say most: without further arguments, and each argument with one value."""
    basic = required(tool)
    yield basic
    for name, schema in tool.input_schema["properties"].items():
        yield basic | {name: next(values_of(name, schema))}


def wide_calls_of(tool):
    """The calls that would tell of another project."""
    for arguments in calls_of(tool):
        told = [each for each in arguments.values() if each not in ANY_STRING]
        is_list = any(isinstance(each, list) for each in told)
        if arguments == required(tool) or is_list or OUT in told or OUTSIDE in told:
            yield arguments
    for name, schema in tool.input_schema["properties"].items():
        for each in alternatives(schema):
            yield from (required(tool) | {name: value} for value in each.get("enum", ()))


def fits(tool, arguments):
    """Tell whether the schema that the tool shows allows a call."""
    try:
        jsonschema.validate(arguments, tool.input_schema)
    except jsonschema.ValidationError:
        return False
    return True


def check_nothing_leaks(text, *, in_scope=True):
    for secret in (SECRET, PASSWORD):
        assert not planted.survives(secret.secret, text)
    for character in ACTING:
        assert character not in text
        assert json.dumps(character)[1:-1] not in text
    if in_scope:
        assert HUSHED not in text.replace(f"'{HUSHED}'", "")  # An error may repeat the question.


def check_answer(text, most_bytes):
    assert text.startswith(NOTICE)
    assert len(text.encode()) <= most_bytes
    document = json.loads(unframed(text))
    assert isinstance(document, dict)
    assert "next" in document
    behind = text.rpartition("</recorded-data ")[2].partition(">")[2]
    assert "IGNORE" not in behind
    assert "apples" not in behind
    return document


def check_error(text, ctx):
    lines = text.split("\n")
    assert lines[0].startswith("error: "), text
    assert any(line.startswith("hint: ") and len(line) > 10 for line in lines), text
    assert len(text) < 4_500
    assert "Traceback" not in text
    assert "pydantic" not in text
    assert str(ctx.homes[0].path) not in text


async def asked_everything(ctx, check, names=NAMES, calls=calls_of):
    """Ask every tool all that is derived; give how often each gave an answer, and how often not."""
    counts, wrong = {name: [0, 0] for name in names}, []
    async with Client(make_server(ctx)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == set(NAMES)
        for name in names:
            for arguments in calls(tools[name]):
                result = await client.call_tool(name, arguments)
                (content,) = result.content
                counts[name][result.is_error] += 1
                try:
                    check(tools[name], arguments, content.text, is_error=result.is_error)
                except (AssertionError, ValueError) as error:
                    where = traceback.extract_tb(error.__traceback__)[-1].line
                    wrong.append(f"{name}({json.dumps(arguments)[:300]}): {where}\n{content.text}")
    assert not wrong, "\n\n".join(each[:1_500] for each in wrong[:5])
    return counts


@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NAMES)
def test_every_answer_is_framed_bounded_and_clean(ctx, name, stride):
    def check(tool, arguments, text, *, is_error):
        check_nothing_leaks(text)
        if is_error:
            check_error(text, ctx)
        else:
            assert fits(tool, arguments)
            check_answer(text, ctx.settings.answer_bytes)

    def calls(tool):
        return islice(calls_of(tool), 0, None, stride)

    counts = anyio.run(asked_everything, ctx, check, [name], calls)
    assert counts[name][0] > 2, "hardly anything was answered, so hardly anything was tried"
    assert counts[name][1] > 2


@pytest.mark.parametrize("name", NAMES)
def test_small_answers_stay_small(ctx, name):
    small = replace(ctx, settings=Settings(answer_bytes=4_000))

    def check(_tool, _arguments, text, *, is_error):
        assert is_error or check_answer(text, 4_000)

    anyio.run(asked_everything, small, check, [name], few_calls_of)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_widened_tells_of_everything_and_is_clean(wide_desk, name):
    heard = []

    def check(_tool, _arguments, text, *, is_error):
        check_nothing_leaks(text, in_scope=False)
        if not is_error:
            heard.append(text)

    anyio.run(asked_everything, wide_desk, check, [name], wide_calls_of)
    # The canaries are there to be heard: else the tests above prove nothing.
    said = "".join(heard)
    assert HUSHED in said or OUT in said or OUTSIDE in said


def test_the_order_to_the_reader_is_heard_but_only_as_data(ctx):
    heard = []

    def check(_tool, _arguments, text, *, is_error):
        if not is_error:
            heard.append(text)
            assert ORDER not in text.replace(unframed(text), "")

    anyio.run(asked_everything, ctx, check, NAMES, few_calls_of)
    assert any(ORDER in unframed(text) for text in heard)
    assert any("[redacted" in text for text in heard)


def test_schemas_are_the_documentation():
    async def listed():
        async with Client(make_server(ToolContext(homes=(), scope=None))) as client:
            return (await client.list_tools()).tools

    for tool in anyio.run(listed):
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert tool.annotations.read_only_hint is True
        assert tool.annotations.destructive_hint is False
        assert tool.input_schema["additionalProperties"] is False
        assert re.match(r"[A-Z][^.]{20,}[.:]", tool.description)
        for name, schema in tool.input_schema["properties"].items():
            assert schema.get("description"), f"{tool.name}.{name} says nothing"
            for each in alternatives(schema):
                is_number = each.get("type") in ("integer", "number")
                assert not is_number or "maximum" in each, f"{tool.name}.{name} has no maximum"
    for tool in TOOLS:  # Too long a text is refused; the schema does not spend words on it.
        for name, schema in own_schema(tool).items():
            for each in alternatives(schema):
                has_bound = {"enum", "const", "maxLength"} & each.keys()
                assert each.get("type") != "string" or has_bound, f"{tool.name}.{name}"


def own_schema(tool):
    """The whole schema of a tool's arguments, as they are checked."""
    fields = {each.name: (each.annotation, each.default) for each in tool.parameters}
    return {
        name: pydantic.TypeAdapter(annotation).json_schema()
        for name, (annotation, _) in fields.items()
    }


def test_schemas_are_small():
    async def listed():
        async with Client(make_server(ToolContext(homes=(), scope=None))) as client:
            return (await client.list_tools()).tools

    tools = anyio.run(listed)
    told = json.dumps([[each.name, each.description, each.input_schema] for each in tools])
    assert len(told) < 16_000  # About 4,000 tokens, for all ten.
    assert '"title": "' not in told
    assert '"null"' not in told


@pytest.mark.parametrize("name", NAMES)
def test_pages_end_and_repeat_nothing(ctx, name):
    """Going on from page to page comes to an end, and each page is another one."""

    async def walk():
        small = replace(ctx, settings=Settings(answer_bytes=4_000))
        async with Client(make_server(small)) as client:
            (tool,) = (each for each in (await client.list_tools()).tools if each.name == name)
            arguments, seen = required(tool), []
            if "limit" in tool.input_schema["properties"]:
                arguments["limit"] = 2
            for _ in range(200):
                result = await client.call_tool(name, arguments)
                assert not result.is_error, result.content[0].text
                document = json.loads(unframed(result.content[0].text))
                cursor = document.pop("next")
                assert document not in seen
                seen.append(document)
                if cursor is None:
                    return
                arguments["cursor"] = cursor
            pytest.fail("there is always another page")

    anyio.run(walk)
