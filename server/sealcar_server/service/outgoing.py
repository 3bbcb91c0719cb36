"""The files of a generation on their way out: which there are, and their bytes in pieces.

Only what the seal record names is a file here, and the manifest. Whatever else lies in the store
stays there.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sealcar.errors import TruncatedError
from sealcar_server.sealing.values import RecordAsset
from sealcar_server.service.failing import during, generation_place
from sealcar_server.service.opened import every_payload
from sealcar_server.service.outgoing_manifest import plain_manifest, stored_manifest
from sealcar_server.service.serving import keyed_digest, open_file, open_reader
from sealcar_server.service.trees import tree_uri
from sealcar_server.store.generation import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sealcar_server.sealing.derivation import PackageKeys
    from sealcar_server.sealing.scratch import Scratch
    from sealcar_server.sealing.sealed_file import SealedFile
    from sealcar_server.service.opened import Held, OpenedPackage
    from sealcar_server.service.opening import Opener

PIECE: Final = 1 << 20


@dataclass(frozen=True)
class Outgoing:
    """One file.

    Attributes:
        path: relative to the package, with "/".
        size: in bytes; the pieces add up to it.
        pieces: its bytes, at most 1 MiB each; they pass through the scratch.
    """

    path: str
    size: int
    pieces: Callable[[Scratch], Iterator[bytes]] = field(repr=False)


def sealed_files(opened: OpenedPackage, manifest: bytes | None = None) -> list[Outgoing]:
    """Return the files of a generation as they lie in the store.

    Args:
        opened: the generation.
        manifest: in place of its own.

    Raises:
        NotFoundError: the generation was removed since it was opened.
        NotAuthenticError, TruncatedError: its manifest was changed since.
    """
    files = [_text(stored_manifest(opened) if manifest is None else manifest)]
    for held in every_payload(opened):
        size = held.payload.file_size
        files.append(Outgoing(held.path(), size, _stored(opened, held, size)))
    return _sorted(files)


def plain_files(
    opener: Opener, opened: OpenedPackage, digests: Mapping[str, Mapping[str, bytes]]
) -> list[Outgoing]:
    """Return the files of a generation as they were before it was sealed.

    Args:
        opener: gives the keys.
        opened: the generation.
        digests: SHA-256 of the plaintext of all payloads of each shared asset, by its URI and name.
    """
    uris = {uri: tree_uri(files) for uri, files in digests.items()}
    originals = {tree_uri(files): files for files in digests.values()}
    files = [_text(plain_manifest(opened, uris))]
    with opener.keys(opened) as keys:
        for held in every_payload(opened):
            if not _is_copy(keys, held, originals):
                pieces = plain_pieces(opener, opened, held)
                files.append(Outgoing(held.path(uris), held.payload.size, pieces))
    return _sorted(files)


def _is_copy(keys: PackageKeys, held: Held, originals: Mapping[str, Mapping[str, bytes]]) -> bool:
    """Tell whether a variant got a payload only when it was published, as its own of an asset.

    References that ONNX Runtime doesn't follow lead there in a store; in a plain package they lead
    to the asset again.
    """
    if isinstance(held.owner, RecordAsset):
        return False
    folder, _, name = held.payload.name.partition("/")
    digest = originals.get(folder.replace("-", ":", 1), {}).get(name)
    if digest is None or not held.payload.digest:
        return False
    return hmac.compare_digest(keyed_digest(keys, held, digest), held.payload.digest)


def _sorted(files: list[Outgoing]) -> list[Outgoing]:
    return sorted(files, key=lambda file: file.path.encode())


def _text(data: bytes) -> Outgoing:
    def pieces(_: Scratch) -> Iterator[bytes]:
        yield from (data[at : at + PIECE] for at in range(0, len(data), PIECE))

    return Outgoing(MANIFEST, len(data), pieces)


def _stored(opened: OpenedPackage, held: Held, size: int) -> Callable[[Scratch], Iterator[bytes]]:
    def pieces(scratch: Scratch) -> Iterator[bytes]:
        with during("export", **generation_place(opened.place), **held.place):
            file = open_file(opened, held)
            try:
                yield from _read(file, size, scratch)
            finally:
                file.close()

    return pieces


def _read(file: SealedFile, size: int, scratch: Scratch) -> Iterator[bytes]:
    found = file.size()
    if found != size:
        raise TruncatedError(f"the file has {found} bytes, its record says {size}")
    for at in range(0, size, PIECE):
        piece = scratch.plain[: min(PIECE, size - at)]
        file.read(piece, at)
        yield bytes(piece)


def plain_pieces(
    opener: Opener, opened: OpenedPackage, held: Held
) -> Callable[[Scratch], Iterator[bytes]]:
    """Return what reads the plaintext of a payload, each piece after it was found authentic."""

    def pieces(scratch: Scratch) -> Iterator[bytes]:
        with (
            during("export", **generation_place(opened.place), **held.place),
            open_reader(opener, opened, held, scratch) as reader,
        ):
            for index in range(reader.layout.count):
                span = reader.read_segment(index, scratch)
                if span.plain_size:
                    yield bytes(scratch.plain[: span.plain_size])

    return pieces
