"""What root finds in the memory of a daemon that is locked: no root key."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, Final

import pytest
from support.daemon import Daemon, run_command
from support.models import EXTERNAL_FILE, external_model
from support.onnx_bytes import model_around
from support.payload_packages import (
    COMPONENT,
    PACKAGE,
    VARIANT,
    PlannedBytes,
    PlannedPackage,
    varied,
)
from support.publishing import one_variant, with_asset, write, write_manifest
from support.secrets_of import Secret, secrets_of

from sealcar import publish

if TYPE_CHECKING:
    from pathlib import Path

    from sealcar.client import Client

SHARING: Final = "with-asset"
FOLDER: Final = "session.model_external_initializers_file_folder_path"
KINDS: Final = {"key-encryption", "store", "package", "asset"}
_REGION: Final = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw")


def memory(pid: int) -> list[bytes]:
    """Return every writable region of a process."""
    found = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:  # noqa: PTH123  (not files)
        for line in maps:
            region = _REGION.match(line)
            if region:
                start, end = (int(text, 16) for text in region.groups())
                with contextlib.suppress(OSError):
                    found.append(os.pread(mem.fileno(), end - start, start))
    return found


def places(regions: list[bytes], form: bytes) -> int:
    return sum(region.count(form) for region in regions)


def common_forms(secret: Secret) -> tuple[bytes, ...]:
    """Return its bytes, hexadecimal digits and base64: more takes long in so much memory."""
    return tuple(secret.forms[at] for at in (0, 1, 3))


def kind(name: str) -> str:
    return name.partition(" key")[0]


def use_every_key(client: Client, plain: Path) -> None:
    """Have a package, one with an asset of its own key, and the store's own key used."""
    model, weights = external_model()
    uri = with_asset(plain, {EXTERNAL_FILE: weights})
    write(plain / "v", {"model.onnx": model})
    ort = {"model_file": "model.onnx", "session_options": {FOLDER: uri}}
    write_manifest(plain, components=one_variant(executor_info={"ort": ort}))
    with publish.plan(plain, name=SHARING) as plan:
        client.catalogue.import_(plan)
    payload = PlannedBytes("model.onnx", "model", model_around(varied(3 << 20)))
    client.catalogue.import_(PlannedPackage((payload,)))
    client.scope(PACKAGE, COMPONENT, VARIANT).read("model.onnx")
    for name in (PACKAGE, SHARING):
        client.catalogue.verify(name)


@pytest.mark.root
def test_after_a_lock_no_root_key_is_left_in_memory(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon, daemon.connect() as client:
        use_every_key(client, tmp_path / "plain")
        secrets = secrets_of(daemon)
        assert {kind(secret.name) for secret in secrets} == KINDS
        # so that finding nothing means something
        before = memory(daemon.pid)
        kept = {kind(secret.name) for secret in secrets if places(before, secret.value)}
        assert {"key-encryption", "package"} <= kept
        done = run_command("lock", "--admin", str(daemon.admin))
        assert done.returncode == 0, done.stderr
        after = memory(daemon.pid)
        found = [
            one.name for one in secrets if any(places(after, form) for form in common_forms(one))
        ]
        assert found == []
