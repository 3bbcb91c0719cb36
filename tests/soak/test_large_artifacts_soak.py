"""A package of a gibibyte goes through a registry, and neither command holds more than pieces."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest
from support import oci_registry, publishing
from support.daemon import Daemon, environment
from support.two_sides import CUSTOMER, two_sides

from sealcar import publish

if TYPE_CHECKING:
    from pathlib import Path

    from support.oci_registry import OciRegistry

SIZE: Final = 1 << 30
# imports take about 70 MiB; a blob would take a thousand
MOST: Final = 160 << 20
# the peak of a process that was forked begins with its parent's, so it tells its own
PEAK: Final = """
import re, sys
from sealcar.cli import main
code = main.run(sys.argv[1:])
with open("/proc/self/status") as status:
    print(re.search(r"VmHWM:\\s*(\\d+)", status.read())[1], file=sys.stderr)
sys.exit(code)
"""


def peak(daemon: Daemon, registry: OciRegistry, *arguments: str) -> int:
    """Run a command to its end, and return the most memory that it had."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *arguments, *registry.options],
        env=environment({"SEALCAR_SOCKET": str(daemon.socket)}),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stderr.split()[-1]) << 10


def test_a_gibibyte_is_pushed_and_pulled_in_bounded_memory(tmp_path: Path) -> None:
    if reason := oci_registry.missing():
        pytest.skip(reason)
    package, held = tmp_path / "package", tmp_path / "held"
    held.mkdir()
    variant = package / "c" / "v"
    variant.mkdir(parents=True)
    with (variant / "big.bin").open("wb") as file:
        file.truncate(SIZE)
    variants = {"v": {"variant_directory": "c/v"}}
    publishing.write_manifest(package, components={"c": {"variants": variants}})
    with oci_registry.oci_registry(held) as registry, two_sides(tmp_path) as (vendor, customer):
        with vendor.connect() as client, publish.plan(package, name="big") as plan:
            client.catalogue.import_(plan)
        place = f"{registry.host}/big:1"
        assert peak(vendor, registry, "push", "big", place, "--to", CUSTOMER) < MOST
        assert peak(customer, registry, "pull", place) < MOST
        with customer.connect() as client:
            assert client.catalogue.verify("big").size == SIZE
