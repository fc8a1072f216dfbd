"""The real `codex` takes the homes that our tests write for its own."""

from codex_world import Rollout, write_world
from e2e.codex import arrived


def test_codex_resumes_what_was_written(codex, responses, monkeypatch):
    monkeypatch.setattr(Rollout, "provider", "fake")
    world = write_world(codex.home)
    codex.configure()
    (codex.home / "state_5.sqlite").unlink()  # The program makes it anew from the files.
    for each in (world.old, world.old_fork, world.new, world.new_fork, world.fork_of_fork):
        assert codex.ask("And now?", resume=each.id) == each.id
        assert arrived(responses.requests[-1]) == [*each.said, "And now?"]
    assert codex("unarchive", world.archived.id).returncode == 0
    codex.ask("And now?", resume=world.archived.id)
    assert arrived(responses.requests[-1]) == [*world.archived.said, "And now?"]
