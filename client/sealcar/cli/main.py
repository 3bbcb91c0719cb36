"""The program `sealcar`: runs one command; what it raises becomes a line and an exit code.

Commands raise errors of `sealcar.errors`, whose classes say the exit code.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from sealcar.errors import SealcarError, StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence

DONE: Final = 0
MISSING: Final = 3
INTERRUPTED: Final = 130


def main() -> None:
    """Run the command line of this process and exit."""
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before a command ran: those have their own last words
        _say("interrupted")
        code = INTERRUPTED
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; nothing that is expected shows a traceback."""
    try:
        import click  # noqa: PLC0415  (an extra: this program explains its absence)
    except ModuleNotFoundError:
        _say("the command line needs click; remedy: pip install 'sealcar[cli]'")
        return MISSING
    from sealcar.cli import report  # noqa: PLC0415  (needs click)
    from sealcar.cli.commands import sealcar  # noqa: PLC0415  (needs click)

    try:
        with report.pipe_closed_quietly():
            try:
                result = sealcar.main(list(arguments), "sealcar", standalone_mode=False)
            except SealcarError as error:
                report.failure(error, as_json="--json" in arguments)
                return error.exit_code
            except (click.ClickException, click.Abort) as error:
                return report.usage(error, as_json="--json" in arguments)
            return result if isinstance(result, int) else DONE
    except OSError as error:  # commands have errors of their own: this is the output's
        report.nowhere()
        _say(f"the output can't be written: {error.strerror}")
        return StorageError.exit_code


def _say(text: str) -> None:
    sys.stderr.write(f"sealcar: {text}\n")


if __name__ == "__main__":
    main()
