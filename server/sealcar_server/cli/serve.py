"""`sealcar serve`: the daemon, in the foreground."""

from __future__ import annotations

import os
from pathlib import Path

import click

from sealcar.cli import report
from sealcar_server import logs, settings, settings_reading
from sealcar_server.cli.places import config as default_config
from sealcar_server.hardening import process


def _every_setting() -> str:
    """Return the table of settings for --help, so that it is never out of date."""
    lines = ["", "", "\b", "Settings (* must be given):"]
    sections = {name: name for name in settings.SECTIONS}
    sections |= {"listen": "listen.NAME", "keys": "keys.ALIAS"}
    for section, label in sections.items():
        for key, info in settings.keys_of(section).items():
            star = "*" if info.required else " "
            lines.append(f" {star}{f'{label}.{key}':<28} {info.purpose}")
    return "\n".join(lines)


@click.command(
    short_help="Run the daemon.",
    epilog=report.examples(
        "sealcar serve --config try/sealcar.toml",
        "sealcar serve --set transfer.memory_limit=1GiB --metrics 127.0.0.1:9464",
    )
    + _every_setting(),
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    envvar="SEALCARD_CONFIG",
    show_envvar=True,
    help="Settings file. Default: /etc/sealcar/sealcar.toml if there is one, else what"
    " `sealcar init` makes.",
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="SECTION.KEY=VALUE",
    help="Any one setting, such as transfer.memory_limit=1GiB or listen.default.mode=0660.",
)
@click.option("--metrics", metavar="HOST:PORT", help="Where /metrics is served: metrics.address.")
@click.option("--log-level", help="debug, info, warning or error: log.level.")
@click.option("--log-format", help="auto, json or console: log.format.")
def serve(config: Path | None, assignments: tuple[str, ...], **common: str | None) -> None:
    """Run the daemon until SIGTERM or SIGINT; it then finishes what is under way and exits 0.

    Settings come from the file, over it from SEALCARD_SECTION_KEY in the environment, over that
    from the command line. It logs to standard error: JSON, or coloured text on a terminal.
    """
    process.link_at_once()
    process.harden()
    names = {"metrics": "metrics.address", "log_level": "log.level", "log_format": "log.format"}
    flags = [f"{names[key]}={value}" for key, value in common.items() if value is not None]
    read = settings_reading.read(config or default_config(), os.environ, (*assignments, *flags))
    logs.configure(read.log)
    # what fails reaches our log as a call's status; its own lines would be no JSON
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from sealcar_server.hardening.confinement import Confinement  # noqa: PLC0415  (not for --help)

    confinement = Confinement(read)
    confinement.begin()
    from sealcar_server import app  # noqa: PLC0415  (loads grpc, which must come after hardening)

    app.run(read, confinement)
