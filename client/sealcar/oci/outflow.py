"""An export that is taken file by file, when somebody has time for the next piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sealcar.closing import Closing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from sealcar.catalogue.exporting import Outgoing
    from sealcar.catalogue.values import Watcher


class Outflow(Closing):
    """Files of an export, in their order. What isn't taken of one is passed over.

    Args:
        outgoing: what sends it.
        progress: is told how far it is.
    """

    def __init__(self, outgoing: Outgoing, progress: Watcher | None) -> None:
        self._came = _Came()
        self._steps = outgoing.steps(self._came, progress)

    def close(self) -> None:
        """End the export."""
        self._steps.close()

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Yield path and size of each file.

        Raises:
            SealcarError: as the export does.
        """
        for _ in self._steps:
            begun, self._came.begun = self._came.begun, None
            if begun is not None:
                yield begun

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes of the file that was yielded last.

        Raises:
            SealcarError: as the export does.
        """
        while self._came.left:
            self._came.piece = b""  # not every step brings one
            next(self._steps)
            yield self._came.piece


class _Came:
    """Takes an export, and holds of it what came last.

    Attributes:
        begun: a file that nobody has heard of yet.
        left: bytes that it still lacks.
        piece: those that came last.
    """

    def __init__(self) -> None:
        self.begun: tuple[str, int] | None = None
        self.left = 0
        self.piece = b""

    def file(self, path: str, size: int) -> None:
        """Begin the next file."""
        self.begun, self.left = (path, size), size

    def write(self, data: bytes) -> None:
        """Add to the file that was begun last."""
        self.left -= len(data)
        self.piece = data

    def finish(self) -> None:
        """Do nothing: it was taken meanwhile."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass
