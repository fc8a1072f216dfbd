"""The server where turnlog's own home cannot be written."""

from index.homes import own_index
from mcp_contexts import ONE, ORCHARD, Log, asked, desk_of
from turnlog.api import background_refresh
from turnlog.formats import find_homes
from turnlog.index.database import index_path, unavailable
from turnlog.index.fallback import delete_temporary_indexes
from turnlog.mcp.tools.query import QUERY
from turnlog.mcp.tools.session import SESSION


def test_a_home_that_cannot_be_written_has_an_index_for_as_long_as_the_server_runs(tmp_path):
    (tmp_path / "file").write_text("")
    with own_index(tmp_path / "file" / "own"):
        log = Log(tmp_path / "home", ONE, ORCHARD, hostile="").prompt("One").save()
        ctx = desk_of(find_homes((tmp_path / "home",)))
        assert asked(ctx, SESSION, session=ONE)["prompts"] == 1
        log.prompt("Two " * 600_000).save()  # Else another process would read so much.
        assert asked(ctx, SESSION, session=ONE)["prompts"] == 2
        found = asked(ctx, QUERY, resource="messages", filter={"content_match": "^O.e$"})
        assert len(found["rows"]) == 1
        delete_temporary_indexes()


def test_an_index_that_cannot_be_written_is_asked_as_it_is(tmp_path, monkeypatch, caplog):
    def refuse(homes):
        raise unavailable(index_path(homes), PermissionError(13, "Permission denied"))

    with own_index(tmp_path / "own"):
        log = Log(tmp_path / "home", ONE, ORCHARD, hostile="").prompt("One").save()
        ctx = desk_of(find_homes((tmp_path / "home",)))
        assert asked(ctx, SESSION, session=ONE)["prompts"] == 1
        monkeypatch.setattr(background_refresh, "refresh", refuse)
        log.prompt("Two").save()
        assert asked(ctx, SESSION, session=ONE)["prompts"] == 1
        assert "read as it is, without what is new in 1 of 1 logs" in caplog.text
