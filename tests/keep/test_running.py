"""A session that is opened at the last moment, after it was found closed, is left alone."""

from __future__ import annotations

import pytest

import turnlog
from turnlog.errors import LogLocked, NotFound
from turnlog.keep.archive import archive
from turnlog.keep.compaction import compact, undo
from turnlog.keep.trash import delete
from turnlog.sessions.writing import build

ASKS = (
    (archive, "refuse_if_running"),
    (delete, "refuse_if_running"),
    (compact, "refuse_running"),
    (undo, "refuse_running"),
)
WAYS = {
    "archive": lambda store, session: store.session(session).archive(),
    "archive --remove": lambda store, session: store.session(session).archive(remove=True),
    "delete": lambda store, session: store.delete(session),
    "reset": lambda store, _: store.reset("/srv/mill"),
    "compact": lambda store, session: compact.compact(store.session(session), write=True),
    "undo": lambda store, session: undo.undo(store.session(session), write=True),
}


class Opened:
    """Opens a session as soon as somebody has asked whether it is closed, and been told so."""

    def __init__(self, store, session, monkeypatch):
        self.writer = None
        for module, name in ASKS:
            monkeypatch.setattr(module, name, self._after(getattr(module, name), store, session))

    def _after(self, ask, store, session):
        def asked(*given):
            ask(*given)
            if self.writer is None:
                self.writer = store.resume(session)
                self.writer.append(build.user("The miller is back"))

        return asked


def with_a_session(root, layout):
    """A store with one session that can be compacted, or was; it is closed."""
    store = turnlog.open(root)
    with store.create(project="/srv/mill", layout=layout) as writer:
        writer.append(build.user("Grind the rye"))
        for _ in range(9):
            writer.update(title="Rye")
    return store, writer.session_id, writer.path


@pytest.mark.parametrize("layout", ["claude", "flat"])
@pytest.mark.parametrize("way", WAYS)
def test_whoever_opens_it_in_between_keeps_it(way, layout, tmp_path, own, monkeypatch):
    store, session, path = with_a_session(tmp_path / "home", layout)
    if way == "undo":
        assert compact.compact(store.session(session), write=True).written
    before = path.read_bytes()
    opened = Opened(store, session, monkeypatch)
    with pytest.raises(LogLocked, match="is running"):
        WAYS[way](store, session)
    assert opened.writer is not None
    after = path.read_bytes()
    assert after.startswith(before)
    assert b"The miller is back" in after
    opened.writer.append(build.user("And grinds on"))
    assert path.read_bytes().startswith(after)
    opened.writer.close()
    assert [each.id for each in store.sessions()] == [session]


@pytest.mark.parametrize("way", WAYS)
def test_and_once_it_is_closed_it_goes(way, tmp_path, own, monkeypatch):
    store, session, path = with_a_session(tmp_path / "home", "claude")
    if way == "undo":
        assert compact.compact(store.session(session), write=True).written
    opened = Opened(store, session, monkeypatch)
    with pytest.raises(LogLocked):
        WAYS[way](store, session)
    opened.writer.close()
    WAYS[way](store, session)
    assert path.exists() == (way not in {"archive --remove", "delete", "reset"})


def test_a_log_that_goes_while_it_is_asked_for_is_not_found(tmp_path, own):
    store, session, path = with_a_session(tmp_path / "home", "claude")
    found = store.session(session)
    path.unlink()
    with pytest.raises(NotFound, match="moved away") as told:
        found.is_archived  # noqa: B018
    assert told.value.hint


def test_a_log_that_goes_while_it_is_opened_is_not_begun_anew(tmp_path, own, monkeypatch):
    store, session, path = with_a_session(tmp_path / "home", "claude")
    read = turnlog.sessions.writing.writer.read_last

    def read_and_lost(*given):
        found = read(*given)
        path.unlink()
        return found

    monkeypatch.setattr(turnlog.sessions.writing.writer, "read_last", read_and_lost)
    with pytest.raises(NotFound) as told, store.resume(session) as writer:
        writer.append(build.user("From the start"))
    assert told.value.hint
    assert not path.exists()
