"""A session whose application holds the key: what sealcar's client does, without a daemon.

Payloads are decrypted by two threads of this process, straight to where the client would bring
them; all else is the same, so the difference to a sealed load is what the daemon costs.
"""

from __future__ import annotations

import ctypes
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.bulk import KEY, Bulk

from sealcar.benching.loaders import providers
from sealcar.ort.loading import load as load_variant
from sealcar.transfer.any_reader import AnyReader
from sealcar.transfer.any_scope import AnyScope
from sealcar.transfer.payloads import PayloadRef
from sealcar.transfer.scopes import OpenedScope, ScopeName
from sealcar_server.sealing.layout import Layout
from sealcar_server.sealing.scratch import Scratch
from sealcar_server.sealing.stream import StreamCipher

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar.benching.clocks import Clock
    from sealcar.benching.jobs import Job
    from sealcar.ort.runtime import Session, SessionOptions
    from sealcar.publish import PlannedPayload
    from sealcar.transfer.any_reader import Put

THREADS: Final = 2
LOADER: Final = "bench.loads_in_process:load"
# of a job's extra: the folder of the sealed files
FOLDER: Final = "sealed"


@dataclass(frozen=True)
class Planned(Bulk):
    """A payload of an import, to be sealed under the key that everybody knows."""

    planned: PlannedPayload | None = None

    def chunks(self) -> Iterator[bytes]:
        return self.planned.chunks() if self.planned else iter(())


def seal(payload: PlannedPayload, folder: Path) -> None:
    """Seal a payload as the daemon would: `KIND.NAME`, with % for what separates folders."""
    made = Planned(payload.name, payload.size, planned=payload)
    made.seal(folder / f"{payload.kind}.{payload.name.replace('/', '%')}")


def load(job: Job, options: SessionOptions, clock: Clock, /) -> Session:
    """Load what `seal` made."""
    folder = Path(job.extra[FOLDER])
    application: Any = _Application(folder, clock)  # as much of a client as loading needs
    return load_variant(
        application,
        *job.address[:1],
        component=job.address[1],
        variant=job.address[2],
        session_options=options,
        providers=providers(job),
    )


class _Application:
    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder, self._clock = folder, clock

    def scope(
        self, package: str, component: str, variant: str, *, version: str, generation: int
    ) -> AnyScope:
        del version, generation
        return _Scope(ScopeName(package, component, variant, "1", 1), self._folder, self._clock)


class _Scope(AnyScope):
    def __init__(self, name: ScopeName, folder: Path, clock: Clock) -> None:
        super().__init__(name)
        self._folder, self._clock = folder, clock

    def reader(self, name: str) -> AnyReader:
        kind = self.payload(name).kind
        path = self._folder / f"{kind}.{name.replace('/', '%')}"
        return _Reader(self.name, name, path, self._clock)

    def _ask(self, name: ScopeName) -> OpenedScope:
        payloads = []
        for path in sorted(self._folder.iterdir()):
            kind, _, payload = path.name.partition(".")
            size = Layout.of_file(path.stat().st_size).plain_size
            payloads.append(
                PayloadRef(payload.replace("%", "/"), kind, size, sealed=True, identity=b"")
            )
        return OpenedScope(name, "", "", "", {}, tuple(payloads))


class _Reader(AnyReader):
    def __init__(self, scope: ScopeName, name: str, path: Path, clock: Clock) -> None:
        super().__init__(scope, name)
        self._file = path.open("rb", buffering=0)
        self._layout = Layout.of_file(path.stat().st_size)
        self.size = self._layout.plain_size
        self._clock = clock

    def close(self) -> None:
        self._file.close()

    def _receive(self, address: int) -> None:
        whole = (ctypes.c_char * self.size).from_address(address)
        self._decrypt(memoryview(whole).cast("B"), lambda *_: None)

    def _pass_on(self, put: Put) -> None:
        self._decrypt(None, put)

    def _decrypt(self, whole: memoryview | None, put: Put) -> None:
        fd, layout = self._file.fileno(), self._layout
        cipher = StreamCipher(KEY, os.pread(fd, layout.params.header, 0))
        failed: list[BaseException] = []

        def work(first: int) -> None:
            scratch = Scratch()
            try:
                for index in range(first, layout.count, THREADS):
                    span = layout.span(index)
                    sealed = scratch.sealed[: span.size]
                    os.preadv(fd, [sealed], span.at)
                    target = scratch.plain[: span.plain_size]
                    if whole is not None:
                        target = whole[span.plain_at : span.plain_at + span.plain_size]
                    cipher.open(index, sealed, target, last=index == layout.count - 1)
                    put(span.plain_at, scratch.address_of_plain, span.plain_size)
            except BaseException as error:  # noqa: BLE001  (told by whoever waits)
                failed.append(error)

        threads = [threading.Thread(target=work, args=(each,)) for each in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
        self._clock.arrived(self.size)
