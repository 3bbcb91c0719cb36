"""Finds the provider of a key's URI, and imports it only then.

Whatever else is installed can add one: an entry point of the group `sealcar.key_providers`, named
like the URI's scheme, that makes a provider from a `KeySource`. It can't replace one of ours.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final, cast

from sealcar.errors import ConfigurationError, RuntimeSupportError, SealcarError
from sealcar.names import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from sealcar_server.keys.provider import KeyProvider
    from sealcar_server.keys.source import KeySource

    Factory = Callable[[KeySource], KeyProvider]

GROUP: Final = "sealcar.key_providers"
_FACTORY: Final = "provider_of"
# by scheme: the module of ours, and the extra that installs what it needs
_OURS: Final = {
    "file": ("sealcar_server.keys.file", "server"),
    "credential": ("sealcar_server.keys.file", "server"),
    "pkcs11": ("sealcar_server.keys.pkcs11_token", "pkcs11"),
    "aws-kms": ("sealcar_server.keys.aws_kms", "aws"),
    "vault": ("sealcar_server.keys.vault_transit", "vault"),
    "recipient": ("sealcar_server.keys.recipient", "server"),
}


def schemes() -> list[str]:
    """Return every scheme that leads to a provider."""
    return sorted({*_OURS, *(entry.name for entry in entry_points(group=GROUP))})


def open_provider(source: KeySource) -> KeyProvider:
    """Make the provider of a source.

    Raises:
        ConfigurationError: no provider has this scheme, or the URI isn't one of its own.
        RuntimeSupportError: what the provider needs isn't installed; the message has the remedy.
        KeyUnavailableError: a key file can't be read.
    """
    scheme = source.uri.scheme
    if scheme in _OURS:
        return _ours(scheme)(source)
    for entry in entry_points(group=GROUP, name=scheme):
        try:
            return cast("Factory", entry.load())(source)
        except SealcarError:
            raise
        except Exception as error:
            # somebody else's code may raise anything; its text may hold what it was given
            raise ConfigurationError(
                f"the plug-in {entry.value} for keys at {scheme}: fails: {type(error).__name__}"
            ) from error
    raise ConfigurationError(
        f"{shown(scheme)} is no kind of key; there are: {', '.join(schemes())}"
    )


def _ours(scheme: str) -> Factory:
    module, extra = _OURS[scheme]
    try:
        return cast("Factory", getattr(import_module(module), _FACTORY))
    except ModuleNotFoundError as error:
        raise RuntimeSupportError(
            f"keys at {scheme}: need {error.name}, which isn't installed; "
            f"remedy: pip install 'sealcar[{extra}]'"
        ) from error
