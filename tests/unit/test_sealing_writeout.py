"""What is written goes to the disk as it comes, so that the wait at the end is short."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from support.daemon import environment
from support.streams import seal

from sealcar_server.sealing.derivation import PayloadKey

SEGMENTS: Final = 4
WRITER: Final = f"""
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from support.streams import seal
from sealcar_server.sealing.derivation import PayloadKey
seal(Path(sys.argv[2]), PayloadKey(b"k" * 32, b"a"), bytes(({SEGMENTS} << 20) - 200))
"""


@pytest.mark.skipif(not shutil.which("strace"), reason="strace isn't there")
def test_each_segment_is_on_its_way_to_the_disk_before_the_next_and_one_fsync_ends_it(
    tmp_path: Path,
) -> None:
    tests = str(Path(__file__).parent.parent)
    done = subprocess.run(
        [
            *("strace", "-f", "-qq", "-o", tmp_path / "calls"),
            *("-e", "trace=pwrite64,sync_file_range,fsync"),
            *(sys.executable, "-c", WRITER, tests, tmp_path / "f"),
        ],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "ptrace" in done.stderr:
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    said = (tmp_path / "calls").read_text()
    calls = re.findall(r"\b(pwrite64|sync_file_range|fsync)\(", said)
    assert calls == ["pwrite64", "sync_file_range"] * (1 + SEGMENTS) + ["fsync"]
    # a hint without a wait: SYNC_FILE_RANGE_WRITE and nothing else
    assert len(re.findall(r", SYNC_FILE_RANGE_WRITE\)", said)) == 1 + SEGMENTS


def test_the_same_bytes_written_twice_have_nothing_in_common(tmp_path: Path) -> None:
    key = PayloadKey(b"k" * 32, b"associated")
    first, second = (seal(tmp_path / name, key, b"same" * 1000) for name in "ab")
    # no digest of the plaintext is made: what stands for the bytes stands for this one writing
    assert first.commitment != second.commitment
    assert (tmp_path / "a").read_bytes()[:100] != (tmp_path / "b").read_bytes()[:100]
