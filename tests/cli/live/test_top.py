"""The screens of ``turnlog top``, driven as a person drives them, on sessions that really run."""

import asyncio
import time

import pytest
from textual.widgets import Input, Static

from index.homes import own_index
from live.live_world import World, call, prompt, result, said, thought
from sampling import sampled
from turnlog.cli.live.app import HelpBox, ResumeBox, SubagentsBox, TopApp
from turnlog.cli.live.session_screen import ConversationView, SessionScreen
from turnlog.cli.live.sessions_screen import SessionListView, SessionsScreen

ONE, TWO, THREE = (f"{each * 8}-aaaa-4aaa-8aaa-{each * 12}" for each in "123")
HOSTILE = (
    "[bold red]x[/] [@click=app.quit]y[/] \x1b[31mred\x1b]0;t\x07 \u202eback\u200b\x00 {z} $error"
)


@pytest.fixture
def world(tmp_path):
    with own_index(tmp_path / "own") as place:
        place.mkdir()
        made = World(tmp_path)
        yield made
        made.close()


class Person:
    """Someone at the keyboard, who sees the screen as text."""

    def __init__(self, app, pilot):
        self.app, self.pilot = app, pilot

    @property
    def screen(self):
        """The lines of the screen."""
        lines = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text for strip in lines)

    async def press(self, *keys):
        await self.pilot.press(*keys)

    async def until(self, fact, seconds=180):
        """Wait until *fact* holds, or until it stands on the screen."""
        end = time.monotonic() + seconds
        while not (fact in self.screen if isinstance(fact, str) else fact()):
            assert time.monotonic() < end, f"never: {fact}\n{self.screen}"
            await self.pilot.pause(0.02)

    async def leave(self):
        """Close what lies on top; a key that comes too early would be meant for that."""
        top = self.app.screen
        await self.press("escape")
        await self.until(lambda: self.app.screen is not top)

    @property
    def view(self):
        return self.app.screen.query_one(ConversationView)

    async def open(self):
        await self.press("enter")
        await self.until(lambda: isinstance(self.app.screen, SessionScreen))
        await self.until(lambda: self.view.entries)

    def shown(self):
        """All lines of the conversation, seen or not."""
        return ["".join(text for text, _ in line) for lines in self.view._lines for line in lines]


def drive(world, act, size=(80, 24), **more):
    async def run():
        app = TopApp(world.live(**more))
        async with app.run_test(size=size) as pilot:
            person = Person(app, pilot)
            await person.until(lambda: isinstance(app.screen, SessionsScreen))
            await person.until(lambda: app.screen.news and app.screen.news.document.today)
            await act(person)

    asyncio.run(run())


def conversation(world, session=ONE):
    """A session with two turns, thoughts, calls that went well and not, and one still at work."""
    world.write(
        session,
        {"type": "ai-title", "aiTitle": "Mend the garden gate"},
        prompt("Mend the gate, please."),
        thought("Is it wood or iron?"),
        said("I look at it first.", stop_reason="tool_use"),
        call(1, "Bash", command="look --at gate"),
        result(1, "a wooden gate\nwith one hinge\nneedle-in-result"),
        call(2, "Bash", command="buy hinge"),
        result(2, "no money", failed=True),
        said("It needs a hinge."),
        prompt("Then borrow one."),
        call(3, "Bash", command="borrow hinge"),
    )


# -- the list ---------------------------------------------------------------------------------


def test_the_list_tells_who_waits_who_works_and_what_it_costs(world):
    conversation(world)
    world.run(ONE, "waiting", waitingFor="permission prompt")
    world.write(TWO, prompt("Count the apples"), call(4, "Bash", command="count"), ago=330)
    world.run(TWO, "busy")
    world.write(THREE, prompt("An old question"), said("An old answer"), ago=4000)

    async def act(person):
        await person.until("recently active")
        await person.until("$0.")
        for words in (
            "2 running",
            "1 waiting for you",
            "waiting for you: permission · Bash borrow hinge",
            "Mend the garden gate",
            "Bash count",
            "5 min",
            "An old question",
            "1 h ago",
            "/h",
        ):
            await person.until(words)
        lines = person.screen.splitlines()
        assert lines[3].startswith(" ◆")  # Who waits for a person comes first.

    drive(world, act)


def test_what_happens_meanwhile_is_shown(world):
    async def act(person):
        await person.until("No running or recently")
        world.write(ONE, prompt("Fly the kite"))
        pid = world.run(ONE, "busy")
        await person.until("thinking")
        world.write(ONE, call(1, "Bash", command="run against the wind"))
        await person.until("Bash run against the wind")
        await person.until("$0.0")
        world.say(pid, ONE, "waiting", waitingFor="input needed")
        await person.until("waiting for you: an answer")
        world.kill(pid)
        await person.until("crashed")
        await person.until("0 running")

    drive(world, act)


def test_filter_sort_and_copy(world):
    world.write(ONE, prompt("apples"), said("x"), project="/srv/orchard", ago=50)
    world.write(TWO, prompt("kites"), said("x"), said("y"), said("z"), ago=100)

    async def act(person):
        listed = person.app.screen.query_one(SessionListView)
        await person.until(lambda: listed.option_count == 2)
        await person.press("f", *"orch")
        await person.until(lambda: [each.id for each in listed.options] == [ONE])
        await person.press("enter")
        assert listed.has_focus
        await person.press("escape")
        await person.until(lambda: [each.id for each in listed.options] == [ONE, TWO])
        await person.press("f", *"nothing like it")
        await person.until("No matching session")
        await person.press("escape")
        await person.press("s")
        await person.until(lambda: [each.id for each in listed.options] == [TWO, ONE])
        person.app.screen.query_one(SessionListView).highlighted = 0
        await person.press("c")
        assert person.app.clipboard == TWO

    drive(world, act)


def test_the_cursor_stays_on_its_session_when_the_order_changes(world):
    world.write(ONE, prompt("one"), said("x"), ago=50)
    world.write(TWO, prompt("two"), said("x"), ago=100)

    async def act(person):
        listed = person.app.screen.query_one(SessionListView)
        await person.until(lambda: listed.option_count == 2)
        await person.press("j")
        assert person.app.screen.chosen.id == TWO
        world.run(TWO, "waiting")
        await person.until(lambda: [each.id for each in listed.options] == [TWO, "-recent", ONE])
        assert person.app.screen.chosen.id == TWO
        await person.press("j")  # The border between the two is nobody's.
        assert person.app.screen.chosen.id == ONE

    drive(world, act)


def test_a_click_opens(world):
    conversation(world)
    world.run(ONE, "busy")

    async def act(person):
        await person.until("Mend the garden gate")
        await person.pilot.click(SessionListView, offset=(10, 1))
        await person.until(lambda: isinstance(person.app.screen, SessionScreen))

    drive(world, act)


def test_with_room_the_panel_tells_all_of_one(world):
    conversation(world)
    world.run(ONE, "waiting", waitingFor="permission prompt")

    async def act(person):
        for words in ("last prompt", "Then borrow one.", "claude-opus-4-6", ONE, "of 200.0k"):
            await person.until(words)
        await person.pilot.resize_terminal(80, 24)
        await person.until(lambda: "last prompt" not in person.screen)

    drive(world, act, size=(200, 50))


def test_help_resume_and_agents(world):
    conversation(world)
    world.write(ONE, prompt("Find a hinge"), said("Found in the shed."), subagent="a1b2")
    world.run(ONE, "busy")

    async def act(person):
        await person.until("Mend the garden gate")
        await person.press("question_mark")
        await person.until("next prompt, previous prompt")
        assert isinstance(person.app.screen, HelpBox)
        await person.leave()
        await person.press("r")
        await person.until(lambda: isinstance(person.app.screen, ResumeBox))
        await person.until(lambda: "claude --resume" in person.app.screen.line)
        shown = person.app.screen.query_one(Static)
        await person.until(lambda: "has it open" in str(shown.content))
        assert f"claude --resume {ONE}" in str(shown.content)
        await person.press("c")
        assert person.app.clipboard.endswith(f"claude --resume {ONE}")
        await person.leave()
        await person.open()
        await person.press("a")
        await person.until("agent-a1b2")
        assert isinstance(person.app.screen, SubagentsBox)
        await person.press("enter")
        await person.until("Found in the shed.")
        await person.press("escape")
        await person.until("borrow hinge")

    drive(world, act)


# -- a session --------------------------------------------------------------------------------


def test_a_session_opens_at_its_end_and_follows_it(world):
    conversation(world)
    world.write(ONE, *(said(f"line {number}", stop_reason=None) for number in range(40)))
    world.run(ONE, "busy")

    async def act(person):
        await person.until("Mend the garden gate")
        await person.open()
        await person.until("line 39")
        assert person.view.is_following
        world.write(ONE, said("something new", stop_reason=None))
        await person.until("something new")
        await person.press("pageup")
        assert not person.view.is_following
        assert "something new" not in person.screen
        top = person.view.scroll_offset.y
        world.write(ONE, said("even newer", stop_reason=None))
        await person.until(lambda: len(person.view.entries) == 50)
        assert person.view.scroll_offset.y == top  # Whoever reads is left alone.
        await person.press("end")
        await person.until("even newer")
        await person.leave()
        assert isinstance(person.app.screen, SessionsScreen)

    drive(world, act)


def test_calls_fold_and_unfold_by_key_and_by_mouse(world):
    conversation(world)
    world.run(ONE, "busy")

    async def act(person):
        await person.until("Mend the garden gate")
        await person.open()
        head = next(n for n, line in enumerate(person.shown()) if "look --at gate" in line)
        assert "with one hinge" not in "\n".join(person.shown())
        person.view._go(head)
        await person.press("enter")
        await person.until("with one hinge")
        assert "▾ Bash" in person.screen
        await person.press("enter")
        await person.until(lambda: "with one hinge" not in person.screen)
        row = head - person.view.scroll_offset.y
        await person.pilot.click(ConversationView, offset=(6, row))
        await person.until("with one hinge")
        await person.press("e")  # Something is unfolded: fold all.
        assert "with one hinge" not in "\n".join(person.shown())
        await person.press("e")
        everything = "\n".join(person.shown())
        assert "with one hinge" in everything
        assert "no money" in everything

    drive(world, act)


def test_an_answer_comes_to_its_call(world):
    conversation(world)
    world.run(ONE, "busy")

    async def act(person):
        await person.until("Mend the garden gate")
        await person.open()
        await person.until("borrow hinge → no result yet")
        count = len(person.view.entries)
        world.write(ONE, result(3, "a brass one"))
        await person.until("borrow hinge → a brass one")
        assert len(person.view.entries) == count

    drive(world, act)


def test_thoughts_are_hidden_until_asked_for(world):
    conversation(world)

    async def act(person):
        await person.until("Mend the garden gate")
        await person.open()
        assert "wood or iron" not in "\n".join(person.shown())
        await person.press("t")
        assert "wood or iron" in "\n".join(person.shown())
        await person.press("t")
        assert "wood or iron" not in "\n".join(person.shown())

    drive(world, act)


def test_search_finds_folded_text_goes_round_and_back(world):
    conversation(world)

    async def act(person):
        await person.until("Mend the garden gate")
        await person.open()
        await person.press("slash", *"hinge", "enter")
        await person.until(lambda: person.view.needle is not None)
        places = []
        for key in ("n", "n", "n", "N"):
            line = person.shown()[person.view.cursor]
            assert "hinge" in line
            places.append(line)
            await person.press(key)
        assert len(set(places)) > 1
        await person.press("slash")
        person.app.screen.query_one(Input).value = ""
        await person.press(*"needle-in", "enter")
        await person.until(lambda: "needle-in-result" in person.shown()[person.view.cursor])
        await person.press("escape")
        assert person.view.needle is None
        assert isinstance(person.app.screen, SessionScreen)
        await person.press("slash")
        person.app.screen.query_one(Input).value = "[nowhere("
        await person.press("enter")
        before = person.view.cursor
        await person.press("n")
        assert person.view.cursor == before

    drive(world, act)


def test_prompts_are_gone_through(world):
    conversation(world)

    async def act(person):
        await person.until("Mend the garden gate")
        await person.open()

        def prompt_here():
            place = person.view._entry_at(person.view.cursor)
            return person.view.entries[place].block.text

        await person.press("left_square_bracket")
        assert prompt_here() == "Then borrow one."
        await person.press("left_square_bracket")
        assert prompt_here() == "Mend the gate, please."
        await person.press("right_square_bracket")
        assert prompt_here() == "Then borrow one."

    drive(world, act)


def test_a_long_log_shows_its_end_and_reads_back_when_asked(world):
    world.write(ONE, prompt("the very beginning"))
    world.write(ONE, *(said(f"line {number}") for number in range(1500)))
    world.run(ONE, "idle")

    async def act(person):
        await person.until("your turn")
        await person.open()
        await person.until("line 1499")
        await person.until("the last 1,000 records")
        assert len(person.view.entries) == 1000
        await person.press("home")
        assert "line 500" in person.screen
        await person.press("home")
        await person.until(lambda: len(person.view.entries) == 1501)
        assert "line 500" in person.screen  # What was seen stays in sight.
        await person.press("home")
        await person.until("the very beginning")

    drive(world, act)


def test_the_log_may_vanish_or_be_replaced(world):
    conversation(world)
    path = world.log(ONE)
    world.run(ONE, "busy")

    async def act(person):
        await person.until("Mend the garden gate")
        await person.open()
        await person.until("borrow hinge")
        path.rename(path.with_suffix(".away"))
        await person.press("g", "G")
        assert "borrow hinge" in person.screen
        world.write(ONE, prompt("anew"), said("from the start"))
        await person.until("from the start")
        await person.until(lambda: "borrow hinge" not in person.screen)

    drive(world, act)


def test_where_the_conversation_went_back_a_mark_says_so(world):
    conversation(world)
    first = next(
        line
        for line in world.log(ONE).read_text().splitlines()
        if '"Mend the gate, please."' in line
    )
    parent = first.split('"uuid": "')[1].split('"')[0]
    world.write(ONE, prompt("Or paint it.") | {"parentUuid": parent})

    async def act(person):
        await person.until("Mend the garden gate")
        await person.open()
        await person.until("conversation rewound")

    drive(world, act)


# -- whatever stands in a log -----------------------------------------------------------------


def test_hostile_text_is_shown_and_obeyed_nowhere(world):
    world.write(
        ONE,
        {"type": "custom-title", "customTitle": HOSTILE, "sessionId": ONE},
        prompt(HOSTILE),
        thought(HOSTILE),
        said(HOSTILE, stop_reason=None),
        call(1, HOSTILE, command=HOSTILE, **{HOSTILE: [HOSTILE]}),
        result(1, HOSTILE),
        call(2, HOSTILE, command=HOSTILE),
        project="/srv/[bold]x",
    )
    world.run(ONE, "waiting", waitingFor=HOSTILE, cwd=HOSTILE)

    async def act(person):
        await person.until("[bold red]x[/] [@click")
        await person.press("question_mark")
        await person.until(lambda: isinstance(person.app.screen, HelpBox))
        await person.leave()
        await person.press("c", "f")
        person.app.screen.query_one(Input).value = HOSTILE
        await person.press("escape", "r")
        await person.until("--resume")
        await person.leave()
        await person.open()
        await person.press("t", "e")
        everything = person.screen + "\n".join(person.shown())
        await person.press("slash")
        person.app.screen.query_one(Input).value = HOSTILE
        await person.press("enter", "n", "a", "escape")
        for character in "\x1b\x07\u202e\u200b\x00":
            assert character not in everything + person.screen
        assert "[bold red]x[/]" in everything
        assert "<right-to-left override>" in everything
        await person.press("g", "tab", "enter")
        assert person.app.is_running

    drive(world, act, size=(200, 50))


@pytest.mark.parametrize(
    ("columns", "lines"), sampled([(1, 1), (20, 6), (40, 10), (80, 24), (200, 50)], 2)
)
def test_no_size_is_too_small_or_too_large(world, columns, lines):
    conversation(world)
    world.write(TWO, prompt("風の凧" * 40), call(9, "Bash", command="é" * 300), ago=9)
    world.run(TWO, "busy")

    async def act(person):
        await person.open()
        await person.press("e", "g", "G", "pageup", "slash", "x", "enter")
        await person.pilot.resize_terminal(columns * 2, lines * 2)
        await person.pilot.resize_terminal(columns, lines)
        await person.until(lambda: max(map(len, person.screen.splitlines())) <= columns)
        while not isinstance(person.app.screen, SessionsScreen):
            await person.press("escape")
        await person.press("question_mark", "escape", "f", "x", "escape", "s")
        assert person.app.is_running

    drive(world, act, size=(columns, lines))
