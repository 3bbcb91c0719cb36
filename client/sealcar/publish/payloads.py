"""What a variant or a shared asset sends: each file in exactly one role."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sealcar.errors import InvalidPackageError
from sealcar.names import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sealcar.publish.files import Tree

MODEL: Final = "model"
INITIALIZERS: Final = "initializers"
BLOB: Final = "blob"
OTHER: Final = "other"


@dataclass(frozen=True)
class PlannedPayload:
    """One payload that is to be imported.

    Attributes:
        component, variant: where it goes; empty for a file of a shared asset.
        name: relative to the variant, or to the asset.
        kind: `model`, `initializers`, `blob` or `other`.
        size: bytes; the chunks add up to it.
        asset: URI of the shared asset that it belongs to; else empty.
    """

    component: str
    variant: str
    name: str
    kind: str
    size: int
    _chunks: Callable[[], Iterator[bytes]] = field(repr=False)
    asset: str = ""

    def chunks(self) -> Iterator[bytes]:
        """Yield the payload, in pieces of at most 1 MiB.

        Raises:
            InvalidPackageError: the file changed since it was checked.
            StorageError: it can't be read.
        """
        yield from self._chunks()


class Payloads:
    """The payloads of one variant or one asset, while they are found.

    Args:
        tree: where their files lie.
        component, variant: whose they are; empty for an asset.
        asset: its URI.
    """

    def __init__(self, tree: Tree, component: str = "", variant: str = "", asset: str = "") -> None:
        self.tree = tree
        self.asset = asset
        self._scope = (component, variant)
        self._found: dict[str, PlannedPayload] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._found

    @property
    def names(self) -> list[str]:
        """Those found so far."""
        return list(self._found)

    def add_file(self, name: str, kind: str) -> None:
        """Add a file as it is.

        Raises:
            InvalidPackageError: it can't be opened, or has another role already.
        """
        file = self.tree.open(name)
        self.add(name, kind, file.size, file.chunks)

    def add(self, name: str, kind: str, size: int, chunks: Callable[[], Iterator[bytes]]) -> None:
        """Add a payload; the same again changes nothing.

        Raises:
            InvalidPackageError: the name has another role already.
        """
        known = self._found.get(name)
        if known is None:
            payload = PlannedPayload(*self._scope, name, kind, size, chunks, self.asset)
            self._found[name] = payload
        elif known.kind != kind:
            raise InvalidPackageError(f"{shown(name)} is used as {known.kind} and as {kind}")

    def all(self) -> list[PlannedPayload]:
        """Return them.

        Raises:
            InvalidPackageError: only case sets two names apart.
        """
        folded: dict[str, str] = {}
        for name in self._found:
            twin = folded.setdefault(name.casefold(), name)
            if twin != name:
                raise InvalidPackageError(f"{shown(twin)} and {shown(name)} differ only in case")
        return list(self._found.values())
