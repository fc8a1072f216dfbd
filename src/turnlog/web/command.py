"""``turnlog web``: sessions, search, costs and insights in a browser."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from turnlog.errors import UsageError
from turnlog.text import inert

if TYPE_CHECKING:
    from turnlog.formats import Home
    from turnlog.web.context import PageContext

PORT: Final = 7434
_NEEDED: Final = ("starlette", "uvicorn")


@click.command(
    name="web",
    epilog="""\b
Examples:
  turnlog web                        say where, and serve until Ctrl-C
  turnlog web --open                 and open it in the browser
  turnlog web --redact               with secrets masked, for a shared screen
  ssh -L 7434:127.0.0.1:7434 HOST    from another machine""",
)
@click.option(
    "--home",
    "homes",
    multiple=True,
    metavar="DIR",
    help="Directory where an agent keeps its sessions; repeatable.  "
    "[default: $CLAUDE_CONFIG_DIR, else ~/.claude and ~/.config/claude; and turnlog's own]",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Loopback addresses only.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Where to listen; 0 takes any that is free.",
)
@click.option("--open", "is_opened", is_flag=True, help="Open it in the browser.")
@click.option("--redact", is_flag=True, help="Mask keys, tokens and passwords in what is shown.")
@click.option(
    "--token-file",
    metavar="FILE",
    help="Read the token from FILE, made if it is not there, instead of a new one each time.",
)
def command(
    homes: tuple[str, ...],
    *,
    host: str,
    port: int,
    is_opened: bool,
    redact: bool,
    token_file: str | None,
) -> int:
    """See sessions, search, costs and insights in a browser, on this machine only.

    Nothing can be changed there. The address that is shown lets in whoever opens it: keep it to
    yourself.
    """
    with _needing_the_extra():
        from turnlog.loopback import ServerAddress, listen, new_token, serve, token_in
        from turnlog.web.app import make_app
        from turnlog.web.auth import TOKEN, WebAuth
    from turnlog.formats import all_homes

    found = all_homes(homes)
    desk = _desk(found, is_redacted=redact)
    token = token_in(token_file) if token_file else new_token()
    listener = listen(host, port)
    place = ServerAddress.of(listener)
    _read(found)
    app = WebAuth(make_app(desk), token=token, place=place)
    if is_opened:
        import webbrowser

        webbrowser.open(f"{place.url}/?{TOKEN}={app.ticket()}")
    serve(app, listener, f"turnlog is at {place.url}/?{TOKEN}={token}\nCtrl-C ends it\n")
    return 0


def _desk(homes: tuple[Home, ...], *, is_redacted: bool) -> PageContext:
    from turnlog.api.store import Store
    from turnlog.config import load_config, problem_message
    from turnlog.formats import turnlog_home
    from turnlog.pricing.cost import configured_prices
    from turnlog.redact import rules_from
    from turnlog.web.context import PageContext

    config = load_config(turnlog_home())
    rules, broken = rules_from(config.redact)
    prices, wrong = configured_prices(turnlog_home())
    for each in dict.fromkeys((*config.problems, *broken, *wrong)):
        click.echo(f"warning: {inert(problem_message(each, turnlog_home()))}", err=True)
    return PageContext(Store(homes, turnlog_home()), prices, rules=rules if is_redacted else None)


def _read(homes: tuple[Home, ...]) -> None:
    """Bring the index up to date before anybody waits for a page."""
    from turnlog.api.index import open_fresh

    is_watched = sys.stderr.isatty()

    def progress(read_bytes: int, of_bytes: int) -> None:
        if is_watched and of_bytes:
            click.echo(f"\rreading the logs: {read_bytes / of_bytes:.0%} ", nl=False, err=True)

    open_fresh(homes, progress=progress).close()
    if is_watched:
        click.echo("\r\x1b[K", nl=False, err=True)


@contextmanager
def _needing_the_extra() -> Iterator[None]:
    """Return how to get the packages that only the server needs, if they are not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in _NEEDED:
            raise
        raise UsageError(
            f"the pages need a package: {name}", hint="install it with: pip install 'turnlog[web]'"
        ) from None
