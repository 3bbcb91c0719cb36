"""A whole daemon over each kind of key: made, filled, started again and read."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pytest
from support.daemon import Daemon, run_command
from support.payload_packages import (
    COMPONENT,
    PACKAGE,
    VARIANT,
    PlannedBytes,
    PlannedPackage,
    publish,
    varied,
)
from support.processes import free_port
from support.raw_clients import RawClient

from sealcar.errors import KeyRefusedError, KeyUnavailableError
from sealcar.v1 import common_pb2
from sealcar_server.keys import key_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.moto_server import KmsServer
    from support.openbao import Bao
    from support.softhsm import SoftToken

    from sealcar.client import Client

QUICK: Final = {"keys.default.check_interval": "1s", "keys.default.timeout": "3s"}


@pytest.fixture(params=["credential", "passphrase", "pkcs11", "kms", "vault"])
def options(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    match request.param:
        case "credential":
            monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(credentials(tmp_path)))
            return ["--key-uri=credential:kek"]
        case "passphrase":
            phrase = tmp_path / "phrase"
            phrase.touch(0o600)
            phrase.write_text("correct horse battery staple")
            return [f"--key-secret=file:{phrase}"]
        case "pkcs11":
            token: SoftToken = request.getfixturevalue("soft_token")
            token.make("daemon", "01")
            return [f"--key-uri={token.uri('daemon')}", f"--key-secret=file:{token.pin_file}"]
        case "kms":
            server: KmsServer = request.getfixturevalue("kms_server")
            uri = server.uri(server.make())
            return [f"--key-uri={uri}", f"--key-secret=file:{server.credentials}"]
        case _:
            bao: Bao = request.getfixturevalue("bao")
            bao.make("daemon")
            return [f"--key-uri={bao.uri('daemon')}", f"--key-secret=file:{bao.token_file}"]


def credentials(folder: Path) -> Path:
    """Return a directory such as systemd makes for a service: only to be read."""
    made = folder / "credentials"
    made.mkdir()
    key_store.create(made / "kek", None)
    made.joinpath("kek").chmod(0o400)
    made.chmod(0o500)
    return made


def test_a_daemon_serves_what_its_key_service_opens(options: list[str], tmp_path: Path) -> None:
    data = varied(3 << 20)
    with Daemon(tmp_path, init=options) as daemon:
        with daemon.connect() as client:
            publish(client, {"weights": data})
        daemon.stop()
        daemon.start()
        with daemon.connect() as client:
            assert client.scope(PACKAGE, COMPONENT, VARIANT).read("weights") == data
    assert data[4096:8192] not in b"".join(
        file.read_bytes() for file in daemon.store.rglob("*") if file.is_file()
    )


def test_without_its_key_service_nothing_is_made_and_the_exit_code_says_so(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text("s.anything")
    folder = tmp_path / "d"
    uri = f"vault:http://127.0.0.1:{free_port()}/transit/kek"
    done = run_command("init", str(folder), f"--key-uri={uri}", f"--key-secret=file:{token}")
    assert done.returncode == 7
    assert "can't be reached" in done.stderr
    assert not folder.exists()


def test_a_passphrase_is_not_taken_for_a_reference_and_not_shown(tmp_path: Path) -> None:
    done = run_command("init", str(tmp_path / "d"), "--key-secret=correct horse battery staple")
    assert done.returncode == 2
    assert 'must be "file:PATH"' in done.stderr
    assert "battery" not in done.stderr


def test_vault_an_outage_stops_only_what_has_no_key_yet_and_ends_without_a_restart(
    bao: Bao, tmp_path: Path
) -> None:
    bao.make("outage")
    options = [f"--key-uri={bao.uri('outage')}", f"--key-secret=file:{bao.token_file}"]
    with Daemon(tmp_path, init=options, settings=QUICK) as daemon, daemon.connect() as client:
        publish(client, {"weights": b"seen"}, "seen")
        publish(client, {"weights": b"unseen"}, "unseen")
        daemon.stop()
        daemon.start()
        with daemon.connect() as again:
            seen = again.scope("seen", COMPONENT, VARIANT)
            assert seen.read("weights") == b"seen"
            bao.seal()
            try:
                time.sleep(3)  # looks at the server go unanswered meanwhile
                assert seen.read("weights") == b"seen"
                with pytest.raises(KeyUnavailableError) as caught:
                    again.scope("unseen", COMPONENT, VARIANT).read("weights")
                assert caught.value.retry_after
            finally:
                bao.unseal()
            assert eventually(lambda: readable(again, "unseen"))


def test_vault_a_transfer_goes_on_beyond_its_keys_lifetime_only_if_the_key_may_be_had_anew(
    bao: Bao, tmp_path: Path
) -> None:
    bao.make("slow")
    options = [f"--key-uri={bao.uri('slow')}", f"--key-secret=file:{bao.token_file}"]
    settings = {**QUICK, "daemon.key_lifetime": "1s"}
    with Daemon(tmp_path, init=options, settings=settings) as daemon:
        with daemon.connect() as client:
            publish(client, {"weights": varied(20 << 20)})
        with RawClient(daemon) as reader, RawClient(daemon) as writer:
            reader.start_read("weights")
            writer.start_write("weights")
            slots = [reader.packet().piece.slot for _ in range(reader.rings[-1].slots)]
            time.sleep(2.5)
            reader.free(slots[0])
            assert reader.packet().WhichOneof("packet") == "piece"
            begun = time.monotonic()
            bao.seal()
            try:
                for side in (reader, writer):
                    assert side.error().reason == common_pb2.ERROR_REASON_KEY_UNAVAILABLE
            finally:
                bao.unseal()
            assert time.monotonic() - begun < 8


@dataclass(frozen=True)
class Slow(PlannedBytes):
    """A payload whose sender does something when a part is sent, and then takes his time."""

    midway: Callable[[], None] = lambda: None

    def chunks(self) -> Iterator[bytes]:
        for number, chunk in enumerate(super().chunks()):
            if number == 1:
                self.midway()
            if number:
                time.sleep(0.3)
            yield chunk


def test_vault_an_import_goes_on_only_if_its_key_may_be_had_anew(bao: Bao, tmp_path: Path) -> None:
    bao.make("importing")
    options = [f"--key-uri={bao.uri('importing')}", f"--key-secret=file:{bao.token_file}"]
    with Daemon(tmp_path, init=options, settings=QUICK) as daemon, daemon.connect() as client:
        slow = Slow("weights", "blob", varied(5 << 20))
        client.catalogue.import_(PlannedPackage((slow,), "fine"))
        try:
            with pytest.raises(KeyUnavailableError) as caught:
                client.catalogue.import_(PlannedPackage((replace(slow, midway=bao.seal),)))
            assert caught.value.retry_after
        finally:
            bao.unseal()
        assert not (daemon.store / PACKAGE / "1" / "g").exists()
        assert not any((daemon.store / ".staging").iterdir())


@pytest.mark.parametrize("how", ["revoked", "deleted"])
def test_vault_a_key_that_was_taken_away_ends_within_the_check_interval(
    bao: Bao, tmp_path: Path, how: str
) -> None:
    bao.make(how)
    token = bao.new_token()
    options = [f"--key-uri={bao.uri(how)}", f"--key-secret=file:{bao.token_file}"]
    with Daemon(tmp_path, init=options, settings=QUICK) as daemon, daemon.connect() as client:
        publish(client, {"weights": b"w"})
        assert readable(client, PACKAGE)
        if how == "revoked":
            bao.revoke(token)
        else:
            bao.transit.update_key_configuration(how, deletion_allowed=True)
            bao.transit.delete_key(how)
        start = time.monotonic()
        assert eventually(lambda: not readable(client, PACKAGE))
        # keys.default.check_interval, and as long as the server may take to answer
        assert time.monotonic() - start < 1 + 3
    bao.new_token()


def readable(client: Client, package: str) -> bool:
    try:
        client.scope(package, COMPONENT, VARIANT).read("weights")
    except (KeyRefusedError, KeyUnavailableError):
        return False
    return True


def eventually(fact: Callable[[], bool]) -> bool:
    end = time.monotonic() + 30
    while not (found := fact()) and time.monotonic() < end:
        time.sleep(0.2)
    return found
