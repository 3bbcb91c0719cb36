"""Has a variant got ready for whoever opens it next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sealcar.catalogue import values
from sealcar.catalogue.verifying import await_end
from sealcar.errors import IncompatibleError
from sealcar.transfer.scopes import ScopeName
from sealcar.v1 import payloads_pb2 as pb
from sealcar.v1.payloads_pb2_grpc import PayloadsStub

if TYPE_CHECKING:
    from sealcar import rpc
    from sealcar.catalogue.values import Watcher


@dataclass(frozen=True)
class Prefetched:
    """What the daemon got ready.

    Attributes:
        scope: of the variant, with version and generation.
        payloads, size: how many, and their plaintext bytes.
        shared: how many of those bytes lie decrypted in shared memory.
    """

    scope: ScopeName
    payloads: int
    size: int
    shared: int


class Prefetching:
    """What `Catalogue` offers to whoever knows what is read next.

    Attributes:
        _rpc: the connection.
    """

    _rpc: rpc.Channel

    def prefetch(
        self, scope: ScopeName, *, shared: bool = False, progress: Watcher | None = None
    ) -> Prefetched:
        """Have a variant got ready: its key had, its payloads checked and in the page cache.

        Args:
            scope: of the variant: package, component and variant at least.
            shared: have its initializers, or a model in ONNX Runtime's own format that has them
                inside, decrypted into the memory that `initializers="shared"` reads; only at a
                daemon on this machine.
            progress: is told how far it is.

        Raises:
            NotFoundError: there is no such variant, or none that the caller may know of.
            DeniedError: the caller may not read it.
            ExhaustedError: the daemon has no memory for what is shared.
            DamagedError: a payload isn't what it should be.
        """
        request = pb.PrefetchRequest(scope=scope.message(), shared=shared)
        with self._rpc.translating("prefetch"):
            call = PayloadsStub(self._rpc.get()).Prefetch(request)
            try:
                with self._rpc.patience(call) as patience:
                    for answer in call:
                        patience.beat()
                        if answer.WhichOneof("step") == "prefetched":
                            await_end(call)
                            return _prefetched(answer.prefetched)
                        if progress is not None:
                            progress(_progress(answer.progress))
            finally:
                call.cancel()
        raise IncompatibleError("the daemon ended without saying what is ready")


def _progress(step: pb.PrefetchProgress) -> values.Progress:
    return values.Progress(step.done, step.total, step.payload)


def _prefetched(found: pb.Prefetched) -> Prefetched:
    return Prefetched(ScopeName.of(found.scope), found.payloads, found.size, found.shared)
