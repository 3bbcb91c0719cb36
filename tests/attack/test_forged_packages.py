"""Packages forged, renamed and decorated in a store, then served by a real daemon.

Each forgery is done to a package of its own while the daemon is down; one daemon then meets all.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
from typing import TYPE_CHECKING, Any, Final

import pytest
from support.daemon import Daemon
from support.opened_stores import generation_of
from support.payload_packages import COMPONENT, VARIANT, PlannedBytes, PlannedPackage
from support.tampering import edit_manifest, edit_record

from sealcar.errors import (
    DamagedError,
    KeyRefusedError,
    NotAuthenticError,
    NotFoundError,
    SealcarError,
    TruncatedError,
)
from sealcar_server.keys.file import FileProvider

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from sealcar.client import Client

PLAIN: Final = b"the weights that everybody is after " * 64
BACKDOOR: Final = b"the weights that somebody else made " * 64
ATTACKERS: Final = "attackers"


def publish(client: Client, name: str, weights: bytes, kek: str = "") -> None:
    # without a model, which a process would look at each time
    payload = PlannedBytes("weights", "blob", weights)
    client.catalogue.import_(PlannedPackage((payload,), name), kek=kek)


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def kek(**values: str) -> Callable[[dict[str, Any]], None]:
    return lambda record: record["kek"].update(values)


# what becomes of the record's wrap, and of which kind the refusal is
FORGED: Final[Mapping[str, tuple[Callable[[dict[str, Any]], None], type[SealcarError]]]] = {
    "a key that nobody configured": (kek(alias=ATTACKERS), KeyRefusedError),
    "a key service as a key's name": (
        kek(alias="vault:https://attacker.example/transit/kek"),
        KeyRefusedError,
    ),
    "a path as a key's name": (kek(alias="../kek"), KeyRefusedError),
    "another configured key": (kek(alias="spare"), KeyRefusedError),
    "a version that there isn't": (kek(version="2"), KeyRefusedError),
    "a version that is none": (kek(version="arn:aws:kms:us-east-1:666:key/x"), KeyRefusedError),
    "noise": (kek(wrapped=b64(os.urandom(60))), KeyRefusedError),
    "nearly nothing": (kek(wrapped=b64(b"x")), KeyRefusedError),
    "nothing": (kek(wrapped=""), DamagedError),
    "a flood": (kek(wrapped=b64(os.urandom(8192))), KeyRefusedError),
    "where else to ask": (kek(uri="vault:https://attacker.example/transit/kek"), DamagedError),
}


def named(case: str) -> str:
    return "forged-" + case.replace(" ", "-").replace("'", "")


def swap(one: Path, two: Path) -> None:
    between = one.with_name("between")
    one.rename(between)
    two.rename(one)
    between.rename(two)


def forge(victim: Daemon, attacker: Daemon) -> None:
    """Do everything that needs no key of the victim's."""
    store = victim.store
    for case, (change, _) in FORGED.items():
        edit_record(generation_of(victim, named(case)), change)
    stolen: dict[str, Any] = {}
    edit_record(generation_of(victim, "honest"), lambda record: stolen.update(record["kek"]))
    edit_record(generation_of(victim, "wrap-of-another"), lambda record: record.update(kek=stolen))
    for name in ("sealed-by-another", "sealed-under-anothers-key"):
        shutil.rmtree(store / name)
        shutil.copytree(attacker.store / name, store / name)
    (store / "to-be-renamed").rename(store / "renamed")
    shutil.copytree(store / "honest", store / "copied")
    (store / "other-version" / "1").rename(store / "other-version" / "2")
    swap(store / "exchanged-a", store / "exchanged-b")
    component = generation_of(victim, "other-component") / COMPONENT
    component.rename(component.with_name("elsewhere"))
    decorate(store, generation_of(victim, "decorated"))
    shutil.copytree(attacker.store / "sealed-by-another", store / "added")
    payload = generation_of(victim, "replaced") / COMPONENT / VARIANT / "weights"
    payload.unlink()
    payload.with_name("decoy").write_bytes(BACKDOOR)
    payload.symlink_to("decoy")


def decorate(store: Path, generation: Path) -> None:
    """Put plaintext wherever somebody might look for it."""
    variant = generation / COMPONENT / VARIANT
    for folder in (store, store / "decorated", generation, generation / COMPONENT, variant):
        for name in ("weights", "weights.plain", "weights.dec", ".weights"):
            place = folder / name
            if not place.exists():
                place.write_bytes(BACKDOOR)
    decoy = generation / COMPONENT / "decoy"
    decoy.mkdir()
    (decoy / "weights").write_bytes(BACKDOOR)
    body = {"variant_directory": f"{COMPONENT}/decoy"}
    edit_manifest(
        generation,
        lambda manifest: manifest["components"][COMPONENT]["variants"].update(decoy=body),
    )


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("victim")
    spare = folder / "spare-kek"
    FileProvider.create(spare).close()
    victim = Daemon(folder, settings={"keys.spare.uri": f"file:{spare}"})
    theirs = tmp_path_factory.mktemp("attacker")
    other = theirs / "own-kek"
    FileProvider.create(other).close()
    attacker = Daemon(theirs, settings={f"keys.{ATTACKERS}.uri": f"file:{other}"})
    with attacker, attacker.connect() as client:
        publish(client, "sealed-by-another", BACKDOOR)
        publish(client, "sealed-under-anothers-key", BACKDOOR, kek=ATTACKERS)
    names = ["honest", "wrap-of-another", "sealed-by-another", "sealed-under-anothers-key"]
    names += ["to-be-renamed", "other-version", "exchanged-a", "exchanged-b", "other-component"]
    names += ["decorated", "replaced", *map(named, FORGED)]
    with victim, victim.connect() as client:
        for name in names:
            publish(client, name, PLAIN)
    forge(victim, attacker)
    with victim.start():
        yield victim


def refusal(daemon: Daemon, name: str, *, version: str = "1") -> SealcarError:
    """Return why nothing of a package is served; it must be the same for all ways to it."""
    with daemon.connect() as client:
        with pytest.raises(SealcarError) as caught:
            client.scope(name, COMPONENT, VARIANT, version=version).read("weights")
        with pytest.raises(type(caught.value)):
            client.catalogue.verify(name, version=version)
    return caught.value


@pytest.mark.parametrize("case", FORGED)
def test_a_record_with_a_forged_wrap_is_refused(daemon: Daemon, case: str) -> None:
    assert isinstance(refusal(daemon, named(case)), FORGED[case][1])


def test_a_wrap_of_another_package_is_refused_by_the_key(daemon: Daemon) -> None:
    assert isinstance(refusal(daemon, "wrap-of-another"), KeyRefusedError)


@pytest.mark.parametrize("name", ["sealed-by-another", "sealed-under-anothers-key"])
def test_a_package_that_an_attackers_daemon_sealed_is_refused(daemon: Daemon, name: str) -> None:
    error = refusal(daemon, name)
    assert isinstance(error, KeyRefusedError)


def test_no_key_but_those_of_the_settings_is_ever_asked_for(daemon: Daemon) -> None:
    for case in FORGED:
        refusal(daemon, named(case))
    refusal(daemon, "sealed-under-anothers-key")
    files = sorted((daemon.folder / "state" / "audit").glob("*.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_bytes().splitlines()]
    asked = {line["alias"] for line in lines if line["event"] == "key"}
    assert asked <= {"default", "spare"}
    assert "default" in asked


@pytest.mark.parametrize("name", ["renamed", "copied"])
def test_a_package_under_another_name_is_refused(daemon: Daemon, name: str) -> None:
    error = refusal(daemon, name)
    assert isinstance(error, NotAuthenticError)
    assert "lies in the place of" in str(error)


def test_a_package_added_to_the_store_is_refused(daemon: Daemon) -> None:
    assert isinstance(refusal(daemon, "added"), DamagedError | KeyRefusedError)


def test_a_package_under_another_version_is_refused(daemon: Daemon) -> None:
    assert isinstance(refusal(daemon, "other-version", version="2"), NotAuthenticError)
    assert isinstance(refusal(daemon, "other-version"), DamagedError)


def test_packages_that_were_exchanged_are_both_refused(daemon: Daemon) -> None:
    for name in ("exchanged-a", "exchanged-b"):
        assert isinstance(refusal(daemon, name), NotAuthenticError)


def test_a_component_under_another_name_is_missing(daemon: Daemon) -> None:
    assert isinstance(refusal(daemon, "other-component"), TruncatedError)


def test_plaintext_beside_the_ciphertext_is_never_served(daemon: Daemon) -> None:
    with daemon.connect() as client:
        scope = client.scope("decorated", COMPONENT, VARIANT)
        assert scope.read("weights") == PLAIN
        assert {payload.name for payload in scope.payloads} == {"weights"}
        for name in ("weights.plain", "weights.dec"):
            with pytest.raises(NotFoundError):
                scope.read(name)
        with pytest.raises(NotFoundError, match="isn't sealed"):
            client.scope("decorated", COMPONENT, "decoy").read("weights")
        client.catalogue.verify("decorated")


def test_a_link_to_plaintext_in_a_payloads_place_is_not_followed(daemon: Daemon) -> None:
    assert isinstance(refusal(daemon, "replaced"), DamagedError)


def test_among_all_of_them_what_is_honest_is_served(daemon: Daemon) -> None:
    with daemon.connect() as client:
        assert client.scope("honest", COMPONENT, VARIANT).read("weights") == PLAIN
        listed = {package.name for package in client.catalogue.list()}
        assert "honest" in listed
    assert BACKDOOR[:64] not in daemon.log_path.read_bytes()
