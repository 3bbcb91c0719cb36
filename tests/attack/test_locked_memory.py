"""What root finds in the memory of a daemon that is locked: no root key."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from support.daemon import Daemon, run_command
from support.onnx_bytes import model_around
from support.payload_packages import (
    COMPONENT,
    PACKAGE,
    VARIANT,
    PlannedBytes,
    PlannedPackage,
    varied,
)

from sealcar_server.keys.provider import package_context
from sealcar_server.sealing import record

if TYPE_CHECKING:
    from pathlib import Path

_REGION = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw")


def memory(pid: int) -> list[bytes]:
    """Return every writable region of a process."""
    found = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:  # noqa: PTH123  (not files)
        for line in maps:
            region = _REGION.match(line)
            if region:
                start, end = (int(text, 16) for text in region.groups())
                try:
                    found.append(os.pread(mem.fileno(), end - start, start))
                except OSError:
                    continue
    return found


def places(pid: int, key: bytes) -> int:
    return sum(region.count(key) for region in memory(pid))


def package_key(daemon: Daemon, kek: bytes) -> bytes:
    manifest = json.loads((daemon.store / PACKAGE / "1" / "g" / "1" / "manifest.json").read_bytes())
    sealed = record.parse(record.open_envelope(manifest)[0])
    nonce, wrapped = sealed.wrapped[:12], sealed.wrapped[12:]
    return AESGCM(kek).decrypt(nonce, wrapped, package_context(sealed.package_id))


@pytest.mark.root
def test_after_a_lock_no_root_key_is_left_in_memory(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon, daemon.connect() as client:
        payload = PlannedBytes("model.onnx", "model", model_around(varied(3 << 20)))
        client.catalogue.import_(PlannedPackage((payload,)))
        client.scope(PACKAGE, COMPONENT, VARIANT).read("model.onnx")
        client.catalogue.verify(PACKAGE)
        kek = bytes.fromhex((daemon.folder / "kek").read_text().split()[-1])
        keys = (kek, package_key(daemon, kek))
        # so that finding nothing means something
        assert all(places(daemon.pid, key) for key in keys)
        done = run_command("lock", "--admin", str(daemon.admin))
        assert done.returncode == 0, done.stderr
        assert [places(daemon.pid, key) for key in keys] == [0, 0]
