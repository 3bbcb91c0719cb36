"""Whom a package may be wrapped for, and what somebody who sends one can't make a daemon take."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from support.asset_packages import AssetPackage
from support.sealed_exports import SealedFiles, sealed_files
from support.services import KEK, ME, MODEL, SOMEBODY, Running

from sealcar.errors import (
    AlreadyExistsError,
    DeniedError,
    InvalidNameError,
    InvalidPackageError,
    InvalidRequestError,
    KeyRefusedError,
    NotAuthenticError,
    NotFoundError,
    SealcarError,
)
from sealcar.v1 import common_pb2 as common
from sealcar.v1 import package_store_pb2 as pb
from sealcar_server.access.policy import Grant, Policy, Right
from sealcar_server.endpoints.grpc_exports import Exports
from sealcar_server.keys.provider import transit_context
from sealcar_server.metrics import Metrics
from sealcar_server.sealing import record
from sealcar_server.sealing.derivation import PackageKeys
from sealcar_server.sealing.secret import SecretBuffer
from sealcar_server.sealing.values import Transit
from sealcar_server.service.composing import NAMESPACE
from sealcar_server.service.confined import ConfinedChecker
from sealcar_server.service.outgoing import Outgoing
from sealcar_server.service.transit import Recipient
from sealcar_server.service.values import ScopeKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import grpc

    from sealcar_server.access.principal import Principal
    from sealcar_server.endpoints.grpc_payloads import Callers
    from sealcar_server.sealing.values import SealRecord

PEM = (
    ec.generate_private_key(ec.SECP256R1())
    .public_key()
    .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
)
PLACE = ("ocr", "", 0)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with Running(tmp_path) as running:
        running.import_()
        yield running


def test_a_key_that_the_caller_brings_needs_the_right_to_export_in_plain(tmp_path: Path) -> None:
    with Running(tmp_path) as running:
        running.import_()
    rights = frozenset({Right.LIST, Right.EXPORT})
    policy = Policy((Grant(ME.uid, None, None, ("*",), None, rights),))
    with Running(tmp_path, policy=policy) as running:
        exporter = running.service.exporter
        with pytest.raises(DeniedError, match="export-plain"):
            exporter.export(ME, PLACE, recipient=Recipient("", PEM))
        for recipient in (Recipient(KEK), Recipient("", PEM), Recipient("customer")):
            with pytest.raises(NotFoundError):
                exporter.export(SOMEBODY, PLACE, recipient=recipient)


def test_what_this_daemon_could_open_again_leaves_only_with_the_right_to_export_in_plain(
    tmp_path: Path,
) -> None:
    with Running(tmp_path) as running:
        running.import_()
    # he could bring it back under the name of a package that he may read
    mine = frozenset(Right) - {Right.EXPORT_PLAIN}
    policy = Policy(
        (
            Grant(ME.uid, None, None, ("ocr",), None, frozenset({Right.EXPORT, Right.LIST})),
            Grant(ME.uid, None, None, ("mine",), None, mine),
        )
    )
    with Running(tmp_path, policy=policy, recipients={"customer": PEM}) as running:
        exporter = running.service.exporter
        with pytest.raises(DeniedError, match="export-plain"):
            exporter.export(ME, PLACE, recipient=Recipient(KEK))
        assert exporter.export(ME, PLACE, recipient=Recipient("customer")).place.number == 1


@pytest.mark.parametrize(
    ("recipient", "kind"),
    [
        (Recipient(""), InvalidRequestError),
        (Recipient(KEK, PEM), InvalidRequestError),
        (Recipient("", b"no key"), InvalidRequestError),
        (Recipient("", b"x" * 100_000), InvalidRequestError),
        (Recipient(f"sha256:{'0' * 64}"), InvalidRequestError),
        (Recipient(KEK, not_after=1), InvalidRequestError),
        (Recipient(KEK, not_after=2**63), InvalidRequestError),
        (Recipient("unknown"), KeyRefusedError),
    ],
)
def test_who_is_nobody_gets_nothing(
    running: Running, recipient: Recipient, kind: type[SealcarError]
) -> None:
    with pytest.raises(kind):
        running.service.exporter.export(ME, PLACE, recipient=recipient)
    with pytest.raises(InvalidRequestError):
        running.service.exporter.export(ME, PLACE, plain=True, recipient=Recipient(KEK))


def forwarded(
    running: Running,
    name: str = "ocr",
    *,
    change: Callable[[SealRecord], SealRecord] = lambda sealed: sealed,
    manifest: Callable[[dict[str, Any]], None] = lambda _: None,
) -> SealedFiles:
    """Return a package in transit to this very daemon, made by somebody who has all its keys."""
    files = sealed_files(running.generation(name))
    document = json.loads(files.manifest)
    sealed = record.parse(record.open_envelope(document)[0])
    opened = running.service.exporter._opener.open(name)
    with running.service.exporter._opener.keys(opened) as keys:
        root = SecretBuffer.copy_of(keys._root.view)
    wrapped = running.keyring.wrap(KEK, root, transit_context(sealed.package_id, KEK))
    sealed = replace(
        sealed, kek_alias=KEK, kek_version=wrapped.version, wrapped=wrapped.blob, transit=Transit()
    )
    text = record.serialise(change(sealed))
    with PackageKeys(root, sealed.package_id) as keys:
        envelope = record.envelope(text, keys.tag(text))
    manifest(document)
    document.setdefault("additional_metadata", {})[NAMESPACE] = envelope
    return replace(files, manifest=json.dumps(document))


def test_an_honest_package_comes_in_under_another_name_with_its_assets(running: Running) -> None:
    AssetPackage.with_weights({"a": b"12345"}).import_into(running, "shared")
    files = forwarded(running, "shared")
    assert files.send(running, "mine").generation == 1
    (asset,) = [key for key in files.files if key[2]]
    scope = ScopeKey("mine", "1", "det", "onnx")
    assert running.read(scope, f"{asset[2]}/a") == b"12345"
    assert running.packages.verify(ME, "mine", "", 0, lambda *_: None).payloads == 2
    with pytest.raises(AlreadyExistsError):
        files.send(running, "mine")


def exported(running: Running, recipient: Recipient) -> SealedFiles:
    """Return what the daemon sends to a recipient."""
    found: dict[str, bytearray] = {}
    for step in running.service.exporter.export(ME, PLACE, recipient=recipient).steps(
        running.scratch
    ):
        if isinstance(step, Outgoing):
            found[step.path] = current = bytearray()
        elif isinstance(step, bytes):
            current += step
    kept = sealed_files(running.generation()).files
    files = {key: (bytes(found[f"{key[0]}/{key[1]}/{key[3]}"]), kept[key][1]) for key in kept}
    return SealedFiles(found["manifest.json"].decode(), files, {})


def test_a_key_that_both_sides_have_at_a_service_does_as_well(tmp_path: Path) -> None:
    with Running(tmp_path / "vendor", more_keys=("shared",)) as vendor:
        vendor.import_()
        files = exported(vendor, Recipient("shared"))
        assert exported(vendor, Recipient("shared")).files == files.files
    (tmp_path / "customer").mkdir()
    shutil.copy(tmp_path / "vendor/kek-shared", tmp_path / "customer/kek-shared")
    with Running(tmp_path / "customer", more_keys=("shared",)) as customer:
        assert files.send(customer, "bought").generation == 1
        assert customer.read(ScopeKey("bought", "1", "det", "onnx")) == MODEL
        assert customer.looking.get(ME, "bought").kek_alias == KEK
    with Running(tmp_path / "stranger") as stranger, pytest.raises(KeyRefusedError):
        files.send(stranger, "stolen")


def test_a_package_in_transit_that_is_called_an_export_or_the_other_way_round_is_refused(
    running: Running,
) -> None:
    bare = forwarded(running, change=lambda sealed: replace(sealed, transit=None, version="2"))
    with pytest.raises(KeyRefusedError):
        bare.send(running)
    own = sealed_files(running.generation())
    document = json.loads(own.manifest)
    sealed = record.parse(record.open_envelope(document)[0])
    text = record.serialise(replace(sealed, transit=Transit()))
    document["additional_metadata"][NAMESPACE] = record.envelope(text, bytes(32))
    with pytest.raises(KeyRefusedError):
        replace(own, manifest=json.dumps(document)).send(running, "mine")


def with_names(name: str, kind: str = "model") -> Callable[[SealRecord], SealRecord]:
    def change(sealed: SealRecord) -> SealRecord:
        (variant,) = sealed.variants
        (payload,) = variant.payloads
        made = replace(payload, name=name, kind=kind)
        return replace(sealed, variants=(replace(variant, payloads=(made,)),))

    return change


def test_the_rules_for_names_hold_for_what_others_send(running: Running) -> None:
    cases = (("sha256:" + "a" * 64 + "/x", "model"), ("a name with spaces", "blob"))
    for name, kind in cases:
        files = forwarded(running, change=with_names(name, kind))
        with pytest.raises((InvalidNameError, InvalidPackageError)):
            files.send(running, "mine")


def test_the_rules_for_manifests_hold_for_what_others_send(running: Running) -> None:
    def unknown_field(document: dict[str, Any]) -> None:
        document["surprise"] = 1

    files = forwarded(running, manifest=unknown_field)
    with pytest.raises(InvalidPackageError, match="surprise"):
        files.send(running, "mine")


def test_models_of_others_are_looked_at_before_they_appear(tmp_path: Path) -> None:
    with Running(tmp_path) as careless:
        careless.import_()
        files = forwarded(careless)
    with Running(tmp_path, checker=ConfinedChecker(64 << 20, 30)) as careful:
        with pytest.raises(InvalidPackageError, match="model: malformed"):
            files.send(careful, "mine")
        assert [one.name for one in careful.listing.list(ME)] == ["ocr"]


def test_payloads_in_transit_are_checked_like_any(running: Running) -> None:
    files = forwarded(running)
    key = ("det", "onnx", "", "model.onnx")
    data = bytearray(files.files[key][0])
    data[-1] ^= 1
    with pytest.raises(NotAuthenticError):
        files.edited(key, bytes(data)).send(running, "mine")
    assert running.read(ScopeKey("ocr", "1", "det", "onnx")) == MODEL
    assert not list((running.store_path / ".staging").iterdir())


def test_who_brought_a_key_is_told_to_operators_as_a_holder_of_plaintext(running: Running) -> None:
    told: list[str] = []

    def caller(how: str) -> Callers:
        def principal(_: grpc.ServicerContext) -> Principal:
            told.append(how)
            return ME

        return principal

    exports = Exports(running.service.exporter, caller("seen"), caller("holder"), Metrics())
    package = common.PackageRef(name="ocr")
    for request in (
        pb.ExportRequest(package=package),
        pb.ExportRequest(package=package, recipient_key=PEM),
        pb.ExportRequest(package=package, plain=True),
    ):
        for _ in exports.send(cast("grpc.ServicerContext", None), request):
            pass
    assert told == ["seen", "holder", "holder"]
