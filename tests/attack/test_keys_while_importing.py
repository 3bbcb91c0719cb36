"""Keys that are taken away while a package comes in: the import ends, and leaves nothing."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pytest
from support.sealed_exports import SealedFiles, sealed_files, with_key_of
from support.services import KEK, ME, Running, manifest

from sealcar.errors import KeyRefusedError, LockedError
from sealcar.v1 import common_pb2 as common
from sealcar.v1 import package_store_pb2 as pb
from sealcar_server.access.permit import RENEWED_AFTER
from sealcar_server.endpoints.grpc_importing import take_in
from sealcar_server.keys.file import FileProvider
from sealcar_server.service.outgoing import Outgoing
from sealcar_server.service.transit import Recipient
from sealcar_server.store.generation import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SENDER: Final = "sender"
PLAIN: Final = SealedFiles(
    json.dumps(manifest(("det", "onnx"))),
    {("det", "onnx", "", "model.onnx"): (b"model" * 1000, "model")},
    {},
)


@dataclass(frozen=True)
class Case:
    """A package, and the daemon that it comes to.

    Attributes:
        kind: "plain"; "returning", as it was exported here; "sent", by somebody else.
    """

    kind: str
    running: Running
    files: SealedFiles

    @property
    def needs(self) -> set[str]:
        """The keys it is opened by, or will be."""
        return {KEK, SENDER} if self.kind == "sent" else {KEK}


def sent_by(origin: Running) -> str:
    """Return the manifest of a package for whoever has the key `sender`, too."""
    export = origin.service.exporter.export(ME, ("ocr", "", 0), recipient=Recipient(SENDER))
    found, path = bytearray(), ""
    for step in export.steps(origin.scratch):
        if isinstance(step, Outgoing):
            path = step.path
        elif isinstance(step, bytes) and path == MANIFEST:
            found += step
    return found.decode()


@pytest.fixture(params=["plain", "returning", "sent"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Case]:
    origin, root = tmp_path / "origin", tmp_path / "root"
    files = PLAIN
    with Running(origin, more_keys=(SENDER,)) as sender:
        sender.import_()
        if request.param != "plain":
            files = sealed_files(sender.generation())
        if request.param == "sent":
            files = replace(files, manifest=sent_by(sender))
    with_key_of(origin, root)
    (root / f"kek-{SENDER}").write_bytes((origin / f"kek-{SENDER}").read_bytes())
    (root / f"kek-{SENDER}").chmod(0o600)
    with Running(root, more_keys=(SENDER,)) as running:
        yield Case(request.param, running, files)


def requests(
    files: SealedFiles, midway: Callable[[], None], *, sealed: bool
) -> Iterator[pb.ImportRequest]:
    """Yield an import of one payload, whose sender does something before the second half."""
    package = common.PackageRef(name="ocr", version="" if sealed else "1")
    begin = pb.ImportBegin(package=package, manifest_json=files.manifest, sealed=sealed)
    yield pb.ImportRequest(begin=begin)
    ((component, variant, _, name), (data, _)), *_ = files.files.items()
    payload = pb.ImportPayload(
        component=component,
        variant=variant,
        name=name,
        kind=common.PAYLOAD_KIND_MODEL,
        size=len(data),
    )
    yield pb.ImportRequest(payload=payload)
    half = min(len(data) // 2, 1 << 20)
    yield pb.ImportRequest(data=data[:half])
    midway()
    for at in range(half, len(data), 1 << 20):
        yield pb.ImportRequest(data=data[at : at + (1 << 20)])
    yield pb.ImportRequest(finish=pb.ImportFinish(payloads=1))


def taken(case: Case, midway: Callable[[], None]) -> pb.ImportResponse:
    steps = requests(case.files, midway, sealed=case.kind != "plain")
    return list(take_in(case.running.packages, ME, steps, lambda _: None))[-1]


def nothing_is_left(running: Running) -> bool:
    staging = running.store_path / ".staging"
    return not any(staging.iterdir()) and not any(running.store_path.glob("ocr/1/g/*"))


def test_a_lock_ends_an_import_before_its_next_byte(case: Case) -> None:
    # the keys alone: that no right stands any more is another reason
    with pytest.raises(LockedError):
        taken(case, case.running.keyring.lock)
    case.running.keyring.unlock()
    assert nothing_is_left(case.running)


@pytest.mark.parametrize("alias", [KEK, SENDER])
def test_a_revoked_version_ends_an_import_before_its_next_byte(case: Case, alias: str) -> None:
    running = case.running

    def revoke() -> None:
        running.keyring.revoke(alias, running.keyring.current_version(alias))

    if alias not in case.needs:
        assert taken(case, revoke).HasField("imported")
        return
    with pytest.raises(KeyRefusedError, match="revoked"):
        taken(case, revoke)
    assert nothing_is_left(running)


def test_a_key_that_can_not_be_had_anew_ends_an_import(case: Case) -> None:
    running = case.running

    def another_key() -> None:
        running.keyring.lock()
        (running.root / "kek").unlink()
        FileProvider.create(running.root / "kek")
        running.keyring.unlock()
        time.sleep(RENEWED_AFTER)

    with pytest.raises(KeyRefusedError):
        taken(case, another_key)
    assert nothing_is_left(running)


def test_who_is_slow_takes_a_package_in_while_its_key_is_given(
    case: Case,
) -> None:
    assert taken(case, lambda: time.sleep(RENEWED_AFTER)).HasField("imported")
