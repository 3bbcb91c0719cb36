"""The life of an import, whatever comes in: steps in order, and after a failure nothing is left."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, ClassVar, Self

from sealcar.errors import WrongStateError
from sealcar_server.sealing.scratch import Scratch
from sealcar_server.service.failing import during

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar_server.sealing.derivation import PackageKeys
    from sealcar_server.service.quotas import Claim
    from sealcar_server.store.interface import Staging


class Inward:
    """One package on its way in. For one thread; aborted on leaving unless finished.

    Args:
        name, version: of the package; its steps' failures say so.
        room: reserved for it.
        keys: of the package.

    All of what it is given belongs to it from now on.
    """

    phase: ClassVar[str]

    def __init__(self, name: str, version: str, *, room: Claim, keys: PackageKeys) -> None:
        self.name, self.version = name, version
        self._room, self._keys = room, keys
        self._scratch = Scratch()
        self._ending = ExitStack()
        # the last one first: what was staged goes before what the writer reserved for it
        self._ending.callback(room.close)
        self._ending.callback(keys.close)
        self._ending.callback(self._scratch.wipe)
        self._ended = False

    def abort(self) -> None:
        """Throw away what is not published, and every secret; twice is fine."""
        self._ended = True
        self._ending.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()

    def _stage(self, staging: Staging) -> Staging:
        """Return a staging that is thrown away with the rest."""
        self._ending.callback(staging.discard)
        return staging

    @contextmanager
    def _step(self, **place: str) -> Iterator[None]:
        with during(self.phase, package=self.name, version=self.version, **place):
            if self._ended:
                raise WrongStateError("the import has ended")
            try:
                yield
            except BaseException:
                self.abort()
                raise
