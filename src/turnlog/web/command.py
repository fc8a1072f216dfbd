"""``turnlog web``: sessions, search, costs and insights in a browser."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from turnlog.text import inert

if TYPE_CHECKING:
    from turnlog.api.homes import Home
    from turnlog.web.context import PageContext

PORT: Final = 7434


@click.command(
    name="web",
    epilog="""\b
Examples:
  turnlog web                        print the URL, and serve until Ctrl-C
  turnlog web --open                 also open it in the browser
  turnlog web --redact               mask secrets, for a shared screen
  ssh -L 7434:127.0.0.1:7434 HOST    from another machine""",
)
@click.option(
    "--home",
    "homes",
    multiple=True,
    metavar="DIR",
    help="Agent's home; repeatable.  [default: ~/.claude and others]",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port; 0 chooses a free one.",
)
@click.option("--open", "is_opened", is_flag=True, help="Open it in the browser.")
@click.option("--redact", is_flag=True, help="Mask keys, tokens and passwords.")
@click.option("--read-only", is_flag=True, help="Do not allow changes of titles, tags and pins.")
@click.option(
    "--token-file",
    metavar="FILE",
    help="Read the token from FILE, created if missing, instead of a new one each time.",
)
def command(
    homes: tuple[str, ...],
    *,
    port: int,
    is_opened: bool,
    redact: bool,
    read_only: bool,
    token_file: str | None,
) -> int:
    """Show sessions, search, costs and insights in a browser, on this machine only.

    Titles, tags and pins can be changed there, nothing else. Anyone who has the printed URL can
    open the pages: keep it private.
    """
    from turnlog.api.homes import all_homes
    from turnlog.loopback import ServerAddress, listen, new_token, serve, token_in
    from turnlog.web.app import make_app
    from turnlog.web.auth import TOKEN, WebAuth

    found = all_homes(homes)
    ctx = _context(found, is_redacted=redact, is_read_only=read_only)
    token = token_in(token_file) if token_file else new_token()
    listener = listen(port)
    place = ServerAddress.of(listener)
    _refresh(found)
    pages = make_app(ctx)
    app = WebAuth(pages, token=token, place=place, is_read_only=read_only)
    if is_opened:
        import webbrowser

        webbrowser.open(f"{place.url}/?{TOKEN}={app.ticket()}")
    words = f"turnlog is at {place.url}/?{TOKEN}={token}\nCtrl-C ends it\n"
    serve(app, listener, words, on_exit=pages.state.close)
    return 0


def _context(homes: tuple[Home, ...], *, is_redacted: bool, is_read_only: bool) -> PageContext:
    from turnlog.api.homes import turnlog_home
    from turnlog.api.store import Store
    from turnlog.config import load_config, problem_message
    from turnlog.pricing.cost import configured_prices
    from turnlog.redact import rules_from
    from turnlog.web.context import PageContext

    config = load_config(turnlog_home())
    rules, broken = rules_from(config.redact)
    prices, wrong = configured_prices(turnlog_home())
    for each in dict.fromkeys((*config.problems, *broken, *wrong)):
        click.echo(f"warning: {inert(problem_message(each, turnlog_home()))}", err=True)
    return PageContext(
        Store(homes, turnlog_home()),
        prices,
        rules=rules if is_redacted else None,
        is_read_only=is_read_only,
    )


def _refresh(homes: tuple[Home, ...]) -> None:
    """Refresh the index before the first page is requested."""
    from turnlog.api.index import open_fresh

    is_watched = sys.stderr.isatty()

    def progress(read_bytes: int, of_bytes: int) -> None:
        if is_watched and of_bytes:
            click.echo(f"\rreading the logs: {read_bytes / of_bytes:.0%} ", nl=False, err=True)

    open_fresh(homes, progress=progress).close()
    if is_watched:
        click.echo("\r\x1b[K", nl=False, err=True)
