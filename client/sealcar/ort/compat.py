"""Which published plugins the compat wrapper was tested with, by plugin and runtime version.

The pairs are data, in compat_versions.json; the tests write them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib import metadata, resources
from typing import Final, TypeAlias

from sealcar.errors import RuntimeSupportError

DATA: Final = "compat_versions.json"
Tested: TypeAlias = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Plugin:
    """A published plugin: its Python module, its distribution, and the runtimes by its version."""

    module: str
    distribution: str
    tested: Tested = field(default_factory=dict)

    def installed(self) -> str | None:
        """Return the installed version, or None."""
        try:
            return metadata.version(self.distribution)
        except metadata.PackageNotFoundError:
            return None


def plugins() -> tuple[Plugin, ...]:
    """Return all plugins that the data knows."""
    rows = json.loads(resources.files(__package__).joinpath(DATA).read_text())
    return tuple(
        Plugin(
            row["module"],
            row["distribution"],
            {plugin: tuple(runtimes) for plugin, runtimes in row["tested"].items()},
        )
        for row in rows
    )


def require_tested(module: str, runtime: tuple[int, int]) -> None:
    """Refuse a plugin whose installed version wasn't tested with the runtime.

    Raises:
        RuntimeSupportError: the message says which pairs were.
    """
    name = f"{runtime[0]}.{runtime[1]}"
    known = next((plugin for plugin in plugins() if plugin.module == module), None)
    if known is None:
        raise RuntimeSupportError(
            f"plugin {module!r} was never tested with sealcar's compat wrapper; "
            "allow_untested=True goes on all the same"
        )
    installed = known.installed()
    if installed is None or name not in known.tested.get(installed, ()):
        tested = "; ".join(f"{k} with {', '.join(v)}" for k, v in known.tested.items())
        raise RuntimeSupportError(
            f"{known.distribution} {installed or '(unknown version)'} wasn't tested with ONNX "
            f"Runtime {name} and sealcar's compat wrapper (tested: {tested}); "
            "allow_untested=True goes on all the same"
        )
