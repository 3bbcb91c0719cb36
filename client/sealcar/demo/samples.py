"""A dozen real files for Magika: from this Python and its packages, or freshly written."""

from __future__ import annotations

import csv
import json
import pydoc
import sqlite3
import struct
import sys
import zipfile
import zlib
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

from sealcar.demo.missing import home_of

if TYPE_CHECKING:
    from collections.abc import Callable

_ACTIVATE: Final = """\
#!/bin/sh
# puts the demo's commands on the path
set -eu
for directory in "$HOME/bin" /usr/local/bin; do
    if [ -d "$directory" ]; then
        PATH="$directory:$PATH"
    fi
done
export PATH
"""
_TOML: Final = """\
[project]
name = "samples"
version = "1.0"
requires-python = ">=3.11"
dependencies = ["magika>=1.0", "onnxruntime>=1.28"]

[tool.ruff]
line-length = 100
"""


def collect(directory: Path) -> list[Path]:
    """Return files of at least twelve types; what has to be made is made below the directory."""
    directory.mkdir()
    knowledge = home_of("magika") / "config" / "content_types_kb.min.json"
    types = json.loads(knowledge.read_text())
    found = [
        Path(__file__),
        knowledge,
        home_of("magika") / "models" / "standard_v3_3" / "README.md",
        Path(sys.executable).resolve(),
    ]
    made: dict[str, Callable[[Path], object]] = {
        "page.html": lambda path: path.write_text(pydoc.html.page("csv", pydoc.html.document(csv))),
        "types.csv": lambda path: _csv(path, types),
        "types.xml": lambda path: _xml(path, types),
        "types.db": lambda path: _database(path, types),
        "picture.png": _png,
        "archive.zip": lambda path: _zip(path, knowledge),
        "activate.sh": lambda path: path.write_text(_ACTIVATE),
        "project.toml": lambda path: path.write_text(_TOML),
    }
    for name, make in made.items():
        path = directory / name
        make(path)
        found.append(path)
    return [path for path in found if path.is_file()]


def _csv(path: Path, types: dict[str, dict[str, object]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["label", "mime type", "group", "is text"])
        for label, about in types.items():
            writer.writerow([label, about["mime_type"], about["group"], about["is_text"]])


def _xml(path: Path, types: dict[str, dict[str, object]]) -> None:
    root = ET.Element("types")
    for label, about in types.items():
        entry = ET.SubElement(root, "type", name=label, group=str(about["group"]))
        entry.text = str(about["description"])
    tree = ET.ElementTree(root)
    ET.indent(tree)
    tree.write(path, encoding="utf-8", xml_declaration=True)


def _database(path: Path, types: dict[str, dict[str, object]]) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE types (label TEXT PRIMARY KEY, description TEXT)")
        rows = ((label, str(about["description"])) for label, about in types.items())
        database.executemany("INSERT INTO types VALUES (?, ?)", rows)


def _png(path: Path, side: int = 128) -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    lines = b"".join(bytes([0, *(x * y % 256 for x in range(side))]) for y in range(side))
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*each) for each in chunks))


def _zip(path: Path, content: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(content, content.name)
