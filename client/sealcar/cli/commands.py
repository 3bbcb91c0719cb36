"""The group `sealcar`, whose commands are the entry points of group `sealcar.commands`.

So the client never imports the daemon, and a command whose part isn't installed is still listed
and says how to get it.
"""

from __future__ import annotations

from functools import cached_property
from importlib.metadata import EntryPoint, entry_points, version
from typing import Final

import click

from sealcar.errors import RuntimeSupportError

GROUP: Final = "sealcar.commands"
# by the module that a command lives in; the others need [cli]
EXTRAS: Final = {"sealcar_server": "server", "sealcar.cli.demo": "demo"}
EPILOG: Final = """\
\b
Exit codes:
  0  done
  1  the answer is no: not found, taken, refused by a rule
  2  wrong usage or setting
  3  a part isn't installed, or the installed runtime can't do it
  4  no daemon, or no registry, answers
  5  denied by the daemon's policy
  6  a package is damaged or forged
  7  the key service refuses or can't be reached
  8  a local resource is lacking: disk, memory, time

\b
Addresses, the same in every command:
  NAME[@VERSION][/COMPONENT[/VARIANT[/PAYLOAD]]]
  with %2F, %40, %25 for / @ % inside a name.

\b
Environment:
  SEALCAR_SOCKET    directory with the daemon's sockets
  SEALCAR_PEER_UID  uid that the daemon must have
  SEALCAR_ADMIN     directory with the daemon's admin socket
  SEALCAR_DELIVERY  how large payloads come and go: auto, ring or stream
  SEALCAR_REMOTE    HOST:PORT of a daemon elsewhere, over mutual TLS; with it
                    SEALCAR_TLS_CA, SEALCAR_TLS_CERT, SEALCAR_TLS_KEY

\b
Completion in the shell (bash; zsh and fish: `sealcar completion --help`):
  eval "$(sealcar completion bash)"

Examples: `sealcar demo` shows everything at work. `sealcar COMMAND --help` has more.
"""


class Commands(click.Group):
    """Finds a command when it is called for."""

    @cached_property
    def _found(self) -> dict[str, EntryPoint]:
        return {each.name: each for each in entry_points(group=GROUP)}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        """Name every command, loaded or not."""
        return sorted(self._found)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  (click's)
        """Load one command; without its part, one that says so."""
        entry = self._found.get(cmd_name)
        if entry is None:
            return None
        try:
            command = entry.load()
        except ModuleNotFoundError as error:
            return _without(entry, error)
        if not isinstance(command, click.Command):
            raise RuntimeSupportError(f"entry point {entry.value} is no command")
        return command


def _without(entry: EntryPoint, error: ModuleNotFoundError) -> click.Command:
    absent = error.name or "a module"
    if absent.split(".")[0] in ("sealcar", "sealcar_server"):
        raise error  # our own module: a broken installation, not a missing part
    missing = part_missing(f"`sealcar {entry.name}`", extra_of(entry), absent)

    @click.pass_context
    def explain(_ctx: click.Context, /, **_: object) -> None:
        raise missing

    return click.Command(
        entry.name,
        callback=explain,
        params=[click.Argument(["rest"], nargs=-1, type=click.UNPROCESSED)],
        add_help_option=False,
        context_settings={"ignore_unknown_options": True},
        short_help=f"(not installed: pip install 'sealcar[{extra_of(entry)}]')",
    )


def extra_of(entry: EntryPoint) -> str:
    """Return the extra that installs what a command needs."""
    for prefix, extra in EXTRAS.items():
        if entry.module == prefix or entry.module.startswith(prefix + "."):
            return extra
    return "cli"


def part_missing(what: str, extra: str, module: str) -> RuntimeSupportError:
    """Make the error for a part that isn't installed: exit code 3, with the remedy."""
    return RuntimeSupportError(
        f"{what} needs {module}, which isn't installed; remedy: pip install 'sealcar[{extra}]'"
    )


@click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("sealcar"), "-V", "--version", prog_name="sealcar")
def sealcar() -> None:
    """Keep compiled ONNX Runtime models encrypted at rest, and keys out of inference processes.

    A daemon owns keys and store; applications load and compile models through it.
    """
