"""One package that somebody spoiled keeps nobody from seeing, listing and reading the others."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from support.services import ME, Running
from support.tampering import edit_record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MOST = (1 << 63) - 1


def link(path: Path) -> None:
    shutil.move(path, path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


def of_unknown_format(generation: Path) -> None:
    pointer = generation.parents[2] / "current"
    pointer.write_text(json.dumps({**json.loads(pointer.read_bytes()), "format": "2"}))


def a_folder_of_the_pointers_name(generation: Path) -> None:
    pointer = generation.parents[2] / "current"
    pointer.unlink()
    (pointer / "g/1").mkdir(parents=True)
    (pointer / "g/1/manifest.json").write_bytes(b"{}")


def impossible_sizes(generation: Path) -> None:
    def change(record: dict[str, Any]) -> None:
        for variant in record["variants"]:
            for payload in variant["payloads"]:
                payload["size"] = MOST

    edit_record(generation, change)


def a_file_for_a_folder(generation: Path) -> None:
    shutil.rmtree(generation.parent)
    generation.parent.write_bytes(b"")


SPOILED: dict[str, Callable[[Path], None]] = {
    "the manifest is a link": lambda generation: link(generation / "manifest.json"),
    "the generation is a link": link,
    "all generations are behind a link": lambda generation: link(generation.parent),
    "the generations are a file": a_file_for_a_folder,
    "the pointer is of an unknown format": of_unknown_format,
    "the pointer is a folder with a generation": a_folder_of_the_pointers_name,
    "sizes that add up to more than a number holds": impossible_sizes,
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_a_spoiled_package_keeps_no_other_from_being_listed(
    root: Path, generation: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(generation)
    with Running(root) as running:
        listed = {one.name: one for one in running.listing.list(ME)}
        assert listed["det-only"].payloads == 4
        assert all(one.size <= MOST for one in listed.values())
        assert running.looking.get(ME, "det-only").summary.current
