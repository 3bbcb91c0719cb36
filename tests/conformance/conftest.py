"""Real key services, each started once and only if a test asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support import softhsm, softokn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.buckets import BucketServer
    from support.moto_server import KmsServer
    from support.openbao import Bao


@pytest.fixture(scope="session")
def soft_token(tmp_path_factory: pytest.TempPathFactory) -> softhsm.SoftToken:
    if reason := softhsm.missing():
        pytest.skip(reason)
    return softhsm.SoftToken(tmp_path_factory.mktemp("softhsm"))


@pytest.fixture(scope="session")
def nss_token(tmp_path_factory: pytest.TempPathFactory) -> softokn.NssToken:
    if reason := softokn.missing():
        pytest.skip(reason)
    return softokn.NssToken(tmp_path_factory.mktemp("softokn"))


@pytest.fixture(scope="session")
def kms_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KmsServer]:
    from support.moto_server import moto_server  # noqa: PLC0415  (slow to import)

    with moto_server(tmp_path_factory.mktemp("moto")) as server:
        yield server


@pytest.fixture(scope="session")
def s3_server(
    kms_server: KmsServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BucketServer]:
    from support.buckets import BucketServer  # noqa: PLC0415  (slow to import)

    # one process plays both services
    server = BucketServer(int(kms_server.url.rpartition(":")[2]), tmp_path_factory.mktemp("s3"))
    yield server
    server.operator.close()


@pytest.fixture(scope="session")
def bao(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bao]:
    from support.openbao import openbao  # noqa: PLC0415  (slow to import)

    with openbao(tmp_path_factory.mktemp("openbao")) as server:
        yield server
