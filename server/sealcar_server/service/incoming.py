"""What an import fills: its variants, and its shared assets."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from sealcar import names
from sealcar.errors import InvalidPackageError
from sealcar_server.sealing.derivation import ID, KEY
from sealcar_server.sealing.secret import SecretBuffer
from sealcar_server.service import naming
from sealcar_server.service.arriving import Arriving
from sealcar_server.service.composing import MAX_SEEN
from sealcar_server.service.references import is_uri
from sealcar_server.service.trees import tree_uri

if TYPE_CHECKING:
    from sealcar_server.sealing.derivation import PackageKeys
    from sealcar_server.sealing.scratch import Scratch
    from sealcar_server.sealing.values import RecordPayload
    from sealcar_server.service.arriving import Arrived
    from sealcar_server.service.values import Announced
    from sealcar_server.store.interface import Staging

MAX_ASSETS: Final = 1024


class IncomingVariant:
    """The payloads of one variant."""

    def __init__(self, component: str, variant: str, keys: PackageKeys) -> None:
        self._scope, self._keys = (component, variant), keys
        self._names = naming.NameSet()
        self._arrived: list[Arrived] = []

    def begin(self, announced: Announced, staging: Staging, scratch: Scratch) -> Arriving:
        """Make a file for the next payload.

        Raises:
            InvalidNameError, AlreadyExistsError: the name breaks a rule, or is taken.
            ExhaustedError, StorageError: it can't be written.
        """
        self._names.claim(announced.name)
        fd = staging.create_payload(*self._scope, announced.name)
        return Arriving(announced, fd, self._keys.variant(*self._scope, announced.name), scratch)

    def accept(self, arrived: Arrived) -> None:
        """Take a payload that is sealed."""
        self._arrived.append(arrived)

    @property
    def count(self) -> int:
        """How many payloads came."""
        return len(self._arrived)

    def recorded(self) -> tuple[RecordPayload, ...]:
        """Return what the record says of the payloads, in their order."""
        return tuple(
            one.recorded(self._keys.digest(*self._scope, one.name, one.sha256))
            for one in self._arrived
        )


class IncomingAsset:
    """The payloads of one shared asset, sealed under a key of its own.

    Attributes:
        uri: of the plaintext, as announced.
        asset_id: 16 random bytes.
        key: the asset key.
        arrived: its payloads, in their order.
    """

    def __init__(self, uri: str, keys: PackageKeys) -> None:
        self.uri: Final = uri
        self.asset_id: Final = os.urandom(ID)
        self.key: Final = SecretBuffer.random(KEY)
        self.arrived: Final[list[Arrived]] = []
        self._keys, self._names = keys, naming.NameSet()

    @property
    def label(self) -> str:
        """The name of its directory until the ciphertext is complete; tells nothing of it."""
        return self.asset_id.hex()

    @property
    def count(self) -> int:
        """How many payloads came."""
        return len(self.arrived)

    def begin(self, announced: Announced, staging: Staging, scratch: Scratch) -> Arriving:
        """Make a file for the next payload; raises as that of a variant."""
        # so is its name where it is read, which is the longest
        names.payload(f"{self.uri}/{announced.name}")
        self._names.claim(announced.name)
        fd = staging.create_asset(self.label, announced.name)
        key = self._keys.asset(self.key, self.asset_id, announced.name)
        return Arriving(announced, fd, key, scratch)

    def accept(self, arrived: Arrived) -> None:
        """Take a payload that is sealed."""
        self.arrived.append(arrived)

    def check(self) -> None:
        """Compare the plaintext with the URI.

        Raises:
            InvalidPackageError: it is another one's.
        """
        if tree_uri({one.name: one.sha256 for one in self.arrived}) != self.uri:
            raise InvalidPackageError(f"the files of shared asset {self.uri} aren't those it names")


class Incoming:
    """Everything that an import fills.

    Args:
        scopes: every component and variant.
        keys: of the package.
    """

    def __init__(self, scopes: list[tuple[str, str]], keys: PackageKeys) -> None:
        self._keys = keys
        self.variants: Final = {scope: IncomingVariant(*scope, keys) for scope in scopes}
        self.assets: Final[dict[str, IncomingAsset]] = {}
        self._secrets = ExitStack()
        self._announced = 0

    def holder(self, announced: Announced) -> IncomingVariant | IncomingAsset:
        """Return where a payload belongs.

        Raises:
            InvalidPackageError: there is no such place, or there are too many payloads.
        """
        # whatever they are, what is made of them couldn't be sealed: nobody has to wait for it
        if self._announced >= MAX_SEEN:
            raise InvalidPackageError(f"over {MAX_SEEN} payloads")
        self._announced += 1
        if announced.asset:
            return self._asset(announced)
        found = self.variants.get((announced.component, announced.variant))
        if found is None:
            raise InvalidPackageError("the manifest has no such component and variant")
        return found

    @property
    def count(self) -> int:
        """How many payloads came."""
        variants = sum(one.count for one in self.variants.values())
        return variants + sum(one.count for one in self.assets.values())

    def close(self) -> None:
        """Wipe the keys of the assets; twice is fine."""
        self._secrets.close()

    def _asset(self, announced: Announced) -> IncomingAsset:
        uri = announced.asset
        if announced.component or announced.variant:
            raise InvalidPackageError("a payload of a shared asset has no component and variant")
        if not is_uri(uri):
            raise InvalidPackageError(
                f"{names.shown(uri)} is no shared asset: sha256: and 64 hexadecimal digits"
            )
        if uri not in self.assets:
            if len(self.assets) >= MAX_ASSETS:
                raise InvalidPackageError(f"over {MAX_ASSETS} shared assets")
            self.assets[uri] = asset = IncomingAsset(uri, self._keys)
            self._secrets.callback(asset.key.close)
        return self.assets[uri]
