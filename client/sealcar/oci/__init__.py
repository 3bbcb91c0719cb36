"""Sealed packages in registries of OCI artifacts: `push` sends one there, `pull` brings one in.

    with sealcar.connect() as client:
        oci.push(client.catalogue, Wanted("ocr"), Reference.parse("registry.example/models/ocr:1"))

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
    from sealcar.oci.pulling import Pulled as Pulled
    from sealcar.oci.pulling import pull as pull
    from sealcar.oci.pushing import Pushed as Pushed
    from sealcar.oci.pushing import Wanted as Wanted
    from sealcar.oci.pushing import push as push

__all__ = ["Access", "Pulled", "Pushed", "Reference", "Wanted", "pull", "push"]

_HOMES: Final = {
    "Pulled": "pulling",
    "Pushed": "pushing",
    "Wanted": "pushing",
    "pull": "pulling",
    "push": "pushing",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        home = import_module(f"{__name__}.{_HOMES[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("sealcar"):
            raise  # a broken installation, not a missing part
        raise RuntimeSupportError(
            f"registries need {error.name}, which isn't installed; remedy: pip install"
            " 'sealcar[oci]'"
        ) from error
    return getattr(home, name)
