"""What root finds in the memory of a daemon that is locked: no root key."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
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
    from collections.abc import Iterator

    from sealcar.client import Client

SHARING: Final = "with-asset"
FOLDER: Final = "session.model_external_initializers_file_folder_path"
KINDS: Final = {"key-encryption", "store", "package", "asset"}
_REGION: Final = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) rw.*?^VmFlags: ([a-z0-9 ]+)$", re.MULTILINE | re.DOTALL
)
# not in a core, zero in a forked child, never swapped
GUARDED: Final = {"dd", "wf", "lo"}


@dataclass(frozen=True)
class Region:
    """A writable region of a process."""

    flags: frozenset[str]
    content: bytes


def memory(pid: int) -> list[Region]:
    """Return every writable region of a process."""
    found = []
    smaps = Path(f"/proc/{pid}/smaps").read_text()
    with open(f"/proc/{pid}/mem", "rb", 0) as mem:  # noqa: PTH123  (no file)
        for first, last, flags in _REGION.findall(smaps):
            start, end = int(first, 16), int(last, 16)
            with contextlib.suppress(OSError):
                content = os.pread(mem.fileno(), end - start, start)
                found.append(Region(frozenset(flags.split()), content))
    return found


def places(regions: list[Region], form: bytes) -> int:
    return sum(region.content.count(form) for region in regions)


def common_forms(secret: Secret) -> tuple[bytes, ...]:
    """Return its bytes, hexadecimal digits and base64: more takes long in so much memory."""
    return tuple(secret.forms[at] for at in (0, 1, 3))


def found_in(regions: list[Region], secrets: list[Secret]) -> list[str]:
    return [
        secret.name
        for secret in secrets
        if any(places(regions, form) for form in common_forms(secret))
    ]


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


class Bare(Daemon):
    """A daemon that is started without any help from its surroundings."""

    def command(self) -> list[str]:
        """Return the command that starts it."""
        return ["env", "-u", "LD_BIND_NOW", *super().command()]


@pytest.fixture
def used(tmp_path: Path) -> Iterator[Daemon]:
    with Bare(tmp_path) as daemon:
        with daemon.connect() as client:
            use_every_key(client, tmp_path / "plain")
        yield daemon


@pytest.mark.root
def test_root_keys_lie_in_guarded_memory_only_and_after_a_lock_nowhere(used: Daemon) -> None:
    secrets = secrets_of(used)
    assert {kind(secret.name) for secret in secrets} == KINDS
    before = memory(used.pid)
    # so that finding nothing means something
    kept = {kind(secret.name) for secret in secrets if places(before, secret.value)}
    assert {"key-encryption", "package"} <= kept
    assert found_in([one for one in before if not one.flags >= GUARDED], secrets) == []
    done = run_command("lock", "--admin", str(used.admin))
    assert done.returncode == 0, done.stderr
    assert found_in(memory(used.pid), secrets) == []
