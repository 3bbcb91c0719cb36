"""Odd words on the command line: each is refused in words, and nothing is done."""

from __future__ import annotations

import os
import pty
import subprocess
from typing import TYPE_CHECKING

import pytest
from support import models
from support.daemon import COMMAND, Daemon, environment, run_command

from sealcar import errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NO_TEXT = "\udcff"  # a byte that is no UTF-8
FAR = str(1 << 70)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("edges")
    made = Daemon(folder)
    made.grant(os.geteuid(), rights=["export", "manage"])
    with made as daemon:
        (folder / "det.onnx").write_bytes(models.whole_model(256))
        done = sealcar(daemon, "import", str(folder / "det.onnx"), "--name", "ocr")
        assert done.returncode == 0, done.stderr
        yield daemon


def sealcar(daemon: Daemon, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command(*arguments, SEALCAR_SOCKET=str(daemon.socket))


@pytest.mark.parametrize(
    "arguments",
    [
        ("ls", NO_TEXT),
        ("ls", "--ep", NO_TEXT),
        ("verify", "ocr", "--resume", NO_TEXT),
        ("verify", "ocr", "--generation", FAR),
        ("inspect", "ocr", "--generation", FAR),
        ("validate", "ocr", "--generation", FAR),
        ("rm", "ocr@1", "--generation", FAR, "--yes"),
        ("inspect", "ocr/main/onnx", "--resolve", NO_TEXT),
        ("export", "ocr", "out", "--generation", FAR),
        ("export", "ocr", "out", "--to", NO_TEXT),
        ("export", "ocr", "out", "--to", ""),
        ("export", "ocr", "out", "--to", "customer", "--not-after", "1970-01-01"),
        ("export", "ocr", "out", "--to", "customer", "--not-after", "1960-01-01"),
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_wrong_usage(
    shared: Daemon, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    placed = [str(tmp_path / each) if each == "out" else each for each in arguments]
    done = sealcar(shared, *placed)
    assert done.returncode == errors.InvalidRequestError.exit_code, done.stderr
    assert done.stderr.startswith("sealcar: ")
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_place_whose_name_is_no_text_is_as_good_as_another(
    shared: Daemon, tmp_path: Path
) -> None:
    for more in ((), ("--json",)):
        place = tmp_path / f"out{NO_TEXT}{len(more)}"
        done = sealcar(shared, "export", "ocr", str(place), *more)
        assert done.returncode == 0, done.stderr
        assert (place / "manifest.json").is_file()


def test_a_variant_that_isnt_there_is_not_found(shared: Daemon) -> None:
    with shared.connect() as client:
        for component, variant in ((None, "qnn"), ("main", "qnn"), ("det", None)):
            with pytest.raises(errors.NotFoundError):
                client.scope("ocr", component, variant).open()


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_an_output_that_takes_nothing_is_told(shared: Daemon, more: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123  (a device)
        done = subprocess.run(
            [*COMMAND, "ls", *more],
            env=environment({"SEALCAR_SOCKET": str(shared.socket)}),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == errors.StorageError.exit_code
    assert done.stderr.startswith("sealcar: ")
    assert done.stderr.count("\n") == 1


def test_a_list_fits_a_terminal_of_80_columns(shared: Daemon) -> None:
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0) as screen:  # noqa: PTH123  (a descriptor)
        done = subprocess.run(
            [*COMMAND, "ls"],
            env=environment(
                {"SEALCAR_SOCKET": str(shared.socket), "COLUMNS": "80", "TERM": "dumb"}
            ),
            stdout=theirs,
            check=True,
        )
        os.close(theirs)
        head, row, *rest = screen.read(1 << 16).decode().splitlines()
    assert done.returncode == 0
    assert head.split()[-3:] == ["assets", "size", "verified"]
    assert row.split()[:2] == ["ocr", "1"]
    assert rest == []
