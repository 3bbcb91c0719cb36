"""Sealed packages in registries of OCI artifacts: `push` sends one there, `pull` brings one in.

    with sealcar.connect() as client:
        place = oci.Reference.parse("registry.example/models/ocr:1")
        oci.push(client.catalogue, oci.Wanted("ocr"), place)

What travels is what an export gives: ciphertext, and the manifest with its seal record. `oras`,
which this needs beside requests, comes with the extra `oci`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from sealcar.errors import RuntimeSupportError
from sealcar.oci.access import Access
from sealcar.oci.references import Reference

if TYPE_CHECKING:
    from types import ModuleType

    from sealcar.oci.pulling import Pulled as Pulled
    from sealcar.oci.pulling import pull as pull
    from sealcar.oci.pushing import Pushed as Pushed
    from sealcar.oci.pushing import Wanted as Wanted
    from sealcar.oci.pushing import push as push

__all__ = [
    "Access",
    "Pulled",
    "Pushed",
    "Reference",
    "Wanted",
    "check_installed",
    "pull",
    "push",
]

_HOMES: Final = {
    "Pulled": "pulling",
    "Pushed": "pushing",
    "Wanted": "pushing",
    "pull": "pulling",
    "push": "pushing",
}


def check_installed() -> None:
    """Check that what this needs is installed.

    Raises:
        RuntimeSupportError: it isn't; the message says what to install.
    """
    _home("repository")


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_home(_HOMES[name]), name)


def _home(name: str) -> ModuleType:
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("sealcar"):
            raise  # a broken installation, not a missing part
        raise RuntimeSupportError(
            f"registries need {error.name}, which isn't installed; remedy: pip install"
            " 'sealcar[oci]'"
        ) from error
