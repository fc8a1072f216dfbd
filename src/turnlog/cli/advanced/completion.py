"""``turnlog completion``: print the completion script of a shell."""

from __future__ import annotations

import click

from turnlog.errors import UsageError

SHELLS = ("bash", "zsh", "fish")


@click.command(
    name="completion",
    epilog="""\b
Examples:
  bash, ~/.bashrc:                   eval "$(turnlog completion bash)"
  zsh, ~/.zshrc:                     eval "$(turnlog completion zsh)"
  fish, ~/.config/fish/config.fish:  turnlog completion fish | source
Completes commands, options, session IDs with titles, projects and models.""",
)
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the completion script of a shell. Load it in the shell's configuration."""
    from click.shell_completion import get_completion_class

    from turnlog.cli.app import app

    kind = get_completion_class(shell)
    if kind is None:
        raise UsageError(f"unsupported shell {shell}", hint=f"use {', '.join(SHELLS)}")
    try:
        script = kind(app, {}, "turnlog", "_TURNLOG_COMPLETE").source()
    except RuntimeError as error:  # The version of bash is too old, or unknown.
        raise UsageError(
            str(error), hint="turnlog completion --help lists the supported shells"
        ) from None
    # bash would split a directory name at its spaces.
    script = script.replace("compopt -o dirnames", "compopt -o filenames -o dirnames")
    # zsh would drop empty values and shift those that follow.
    click.echo(script.replace("in ${response}; do", 'in "${response[@]}"; do'))
