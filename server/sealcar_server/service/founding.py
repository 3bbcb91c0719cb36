"""What a new package begins with: its key, its identity, its version."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from sealcar.errors import InvalidNameError
from sealcar_server.keys.provider import package_context
from sealcar_server.sealing.derivation import ID, KEY, PackageKeys
from sealcar_server.sealing.secret import SecretBuffer
from sealcar_server.service.composing import Lineage
from sealcar_server.store.places import store_version

if TYPE_CHECKING:
    from sealcar_server.service.custody import Custody
    from sealcar_server.service.manifest import Object

_FIRST_VERSION: Final = "1"


def found_package(
    place: tuple[str, str, int], keyring: Custody, alias: str
) -> tuple[Lineage, PackageKeys]:
    """Make the key and the identity of a package.

    Args:
        place: name, version, and the number of the first generation.
        keyring: wraps the key.
        alias: of the key-encryption key.

    Returns:
        What the first record says of itself, and the keys, which the caller closes.

    Raises:
        KeyRefusedError, KeyUnavailableError: the key can't be wrapped.
    """
    name, version, number = place
    package_id = os.urandom(ID)
    root = SecretBuffer.random(KEY)
    try:
        wrapped = keyring.wrap(alias, root, package_context(package_id))
    except BaseException:
        root.close()
        raise
    lineage = Lineage(name, version, package_id, number, b"", alias, wrapped.version, wrapped.blob)
    return lineage, PackageKeys(root, package_id)


def default_version(prepared: Object) -> str:
    """Return the publisher's version if it can be one of the store, else "1"."""
    version = prepared.get("package_version")
    try:
        return store_version(version) if isinstance(version, str) else _FIRST_VERSION
    except InvalidNameError:
        return _FIRST_VERSION
