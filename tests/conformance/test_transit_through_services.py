"""From vendor to customer through a key service that both use, and nothing else that they share."""

from __future__ import annotations

import json
import os
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pytest
from support.daemon import Daemon, run_command
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish, varied

from sealcar.errors import DeniedError, KeyRefusedError
from sealcar.exports import Destination, Recipient
from sealcar.publish import sealed_plan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.moto_server import KmsServer
    from support.openbao import Bao

ALIAS: Final = "shared"
SECRET: Final = varied(2 << 20)
RIGHTS: Final = ("list", "read", "write", "import", "verify", "export", "export-plain")
# what a vendor's token needs: to have his packages' keys encrypted, and to see which key it is
_VENDOR: Final = """
path "transit/encrypt/{name}" {{ capabilities = ["update"] }}
path "transit/keys/{name}" {{ capabilities = ["read"] }}
"""


@dataclass(frozen=True)
class Key:
    """One key of a service, as either side reaches it, and another one."""

    uri: str
    other: str
    vendor: Path
    customer: Path


@pytest.fixture(scope="module")
def kms_key(kms_server: KmsServer) -> Key:
    # moto lets everybody do everything
    credentials = kms_server.credentials
    uri, other = (kms_server.uri(kms_server.make()) for _ in range(2))
    return Key(uri, other, credentials, credentials)


@pytest.fixture(scope="module")
def vault_key(bao: Bao, tmp_path_factory: pytest.TempPathFactory) -> Key:
    for name in ("to-customer", "to-another"):
        bao.make(name)
    bao.root.sys.create_or_update_policy("vendor", _VENDOR.format(name="to-customer"))
    answer = bao.root.auth.token.create(policies=["vendor"], ttl="1h")
    file = tmp_path_factory.mktemp("vendor") / "token"
    file.touch(0o600)
    file.write_text(str(answer["auth"]["client_token"]))
    return Key(bao.uri("to-customer"), bao.uri("to-another"), file, bao.token_file)


@pytest.fixture(scope="module", params=["kms", "vault"])
def key(request: pytest.FixtureRequest) -> Key:
    found: Key = request.getfixturevalue(f"{request.param}_key")
    return found


def daemon(
    folder: Path, aliases: dict[str, tuple[str, Path]], rights: tuple[str, ...] = RIGHTS
) -> Daemon:
    settings: dict[str, str] = {}
    for alias, (uri, secret) in aliases.items():
        settings |= {f"keys.{alias}.uri": uri, f"keys.{alias}.secret": f"file:{secret}"}
    made = Daemon(folder, settings=settings)
    made.grant(os.geteuid(), rights=rights)
    return made


@pytest.fixture(scope="module")
def vendor(key: Key, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with daemon(tmp_path_factory.mktemp("v"), {ALIAS: (key.uri, key.vendor)}) as made:
        with made.connect() as client:
            publish(client, {"weights": SECRET})
        yield made


@pytest.fixture(scope="module")
def sent(vendor: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Path:
    tar = tmp_path_factory.mktemp("sent") / "sent.tar"
    done = run_command(
        "export", PACKAGE, str(tar), "--to", ALIAS, SEALCAR_SOCKET=str(vendor.socket)
    )
    assert done.returncode == 0, done.stderr
    return tar


def taken(daemon: Daemon, tar: Path, name: str) -> str:
    plan = sealed_plan(tar, name=name)
    assert plan is not None
    with plan, daemon.connect() as client:
        return client.catalogue.import_(plan, sealed=True).name


def test_a_package_moves_between_daemons_that_share_one_key_of_a_service(
    key: Key, vendor: Daemon, sent: Path, tmp_path: Path
) -> None:
    with tarfile.open(sent) as archive:
        manifest = archive.extractfile("manifest.json")
        assert manifest is not None
        assert "sealcar" in json.load(manifest)["additional_metadata"]
    assert SECRET[4096:8192] not in sent.read_bytes()
    assert (vendor.folder / "kek").is_file()
    with daemon(tmp_path, {ALIAS: (key.uri, key.customer)}) as customer:
        assert (customer.folder / "kek").read_bytes() != (vendor.folder / "kek").read_bytes()
        taken(customer, sent, "bought")
        with customer.connect() as client:
            # it lies under the customer's own key: the service is needed once
            assert client.catalogue.get("bought").kek_alias == "default"
            assert client.scope("bought", COMPONENT, VARIANT).read("weights") == SECRET


def test_the_alias_has_to_lead_to_the_same_key_on_both_sides(
    key: Key, sent: Path, tmp_path: Path
) -> None:
    aliases = {ALIAS: (key.other, key.customer), "elsewhere": (key.uri, key.customer)}
    with daemon(tmp_path, aliases) as customer:
        with pytest.raises(KeyRefusedError):
            taken(customer, sent, "bought")
        assert not any((customer.store / "bought").glob("*/g/*"))


def test_a_key_of_a_service_that_the_customer_lacks_is_named(sent: Path, tmp_path: Path) -> None:
    with (
        daemon(tmp_path, {}) as customer,
        pytest.raises(KeyRefusedError, match="no key-encryption key named 'shared'"),
    ):
        taken(customer, sent, "bought")


def test_vault_a_vendor_who_may_only_encrypt_takes_nothing_back(
    vault_key: Key, bao: Bao, tmp_path: Path
) -> None:
    with daemon(tmp_path, {ALIAS: (vault_key.uri, vault_key.vendor)}) as vendor:
        tar = tmp_path / "sent.tar"
        with vendor.connect() as client:
            publish(client, {"weights": b"w"})
            client.catalogue.export(PACKAGE, Destination(tar, tar=True, recipient=Recipient(ALIAS)))
        with pytest.raises(KeyRefusedError):
            taken(vendor, tar, "mine")
        # so the customer's versions may go on, and the vendor's next package is under the newest
        bao.transit.rotate_key("to-customer")
        with vendor.connect() as client:
            client.catalogue.export(
                PACKAGE, Destination(tmp_path / "2.tar", tar=True, recipient=Recipient(ALIAS))
            )
    with daemon(tmp_path / "c", {ALIAS: (vault_key.uri, vault_key.customer)}) as customer:
        for number, file in enumerate((tar, tmp_path / "2.tar")):
            taken(customer, file, f"bought{number}")


def test_kms_whoever_may_only_export_sealed_sends_nothing_under_a_key_that_opens_here(
    kms_key: Key, tmp_path: Path
) -> None:
    vendor = daemon(tmp_path, {ALIAS: (kms_key.uri, kms_key.vendor)}, ("export",))
    with vendor, vendor.connect() as client:
        publish(client, {"weights": b"w"})
        with pytest.raises(DeniedError, match="export-plain"):
            client.catalogue.export(
                PACKAGE, Destination(tmp_path / "x.tar", tar=True, recipient=Recipient(ALIAS))
            )
