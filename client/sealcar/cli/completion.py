"""The command that gives shells what completes `sealcar`."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

from sealcar.cli import report
from sealcar.errors import RuntimeSupportError

PROGRAM: Final = "sealcar"
# click asks for it in this variable, whenever the shell wants to know how a line may go on
VARIABLE: Final = "_SEALCAR_COMPLETE"
SHELLS: Final = ("bash", "fish", "zsh")


@click.command(
    short_help="Print what completes commands in a shell.",
    epilog=report.examples(
        'eval "$(sealcar completion bash)"     # in ~/.bashrc; zsh alike, in ~/.zshrc',
        "sealcar completion fish > ~/.config/fish/completions/sealcar.fish",
    ),
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script for SHELL that completes command lines of sealcar.

    SHELL is bash (4.4 or newer), fish or zsh. Commands, options, words that an option takes and
    names of files are completed. No daemon is asked, so names of packages aren't.
    """
    found = get_completion_class(shell)
    if found is None:
        raise RuntimeSupportError(f"the installed click can't complete for {shell}")
    root = click.get_current_context().find_root().command
    click.echo(found(root, {}, PROGRAM, VARIABLE).source())
