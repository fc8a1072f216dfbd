"""``turnlog completion``: what a shell needs to complete commands, sessions and projects."""

from __future__ import annotations

import click

from turnlog.errors import UsageError

SHELLS = ("bash", "zsh", "fish")


@click.command(
    name="completion",
    epilog="""\b
Examples, each for the shell's own settings:
  bash, ~/.bashrc:                   eval "$(turnlog completion bash)"
  zsh, ~/.zshrc:                     eval "$(turnlog completion zsh)"
  fish, ~/.config/fish/config.fish:  turnlog completion fish | source
Then Tab completes commands, options, sessions by id with their titles, projects and models.""",
)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the script that lets a shell complete turnlog's commands."""
    from click.shell_completion import get_completion_class

    from turnlog.cli.app import app

    kind = get_completion_class(shell)
    if kind is None:
        raise UsageError(f"no completion for {shell}", hint=f"there is one for {', '.join(SHELLS)}")
    try:
        script = kind(app, {}, "turnlog", "_TURNLOG_COMPLETE").source()
    except RuntimeError as error:  # This one asks the shell itself for its version.
        raise UsageError(
            str(error), hint="turnlog completion --help tells what is supported"
        ) from None
    # Else bash would put a directory with a space in its name down as two words.
    script = script.replace("compopt -o dirnames", "compopt -o filenames -o dirnames")
    # Else zsh drops empty values, and takes what follows one for something else.
    click.echo(script.replace("in ${response}; do", 'in "${response[@]}"; do'))
