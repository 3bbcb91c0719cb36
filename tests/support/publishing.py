"""Plain packages on a disk or in an archive, and what an import of them is planned to send."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from sealcar import publish


def asset_uri(files: Mapping[str, bytes]) -> str:
    """Return the directory hash of these files, as the format's document says it."""
    lines = sorted(
        (name.encode(), hashlib.sha256(data).hexdigest().encode()) for name, data in files.items()
    )
    whole = b"".join(b"%b  %b\n" % (digest, name) for name, digest in lines)
    return f"sha256:{hashlib.sha256(whole).hexdigest()}"


def write(root: Path, files: Mapping[str, bytes]) -> Path:
    for name, data in files.items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return root


def with_asset(root: Path, files: Mapping[str, bytes]) -> str:
    """Write a shared asset to its default place; return its URI."""
    uri = asset_uri(files)
    write(root / "shared_assets" / uri.replace(":", "-"), files)
    return uri


def write_manifest(root: Path, **members: Any) -> Path:  # noqa: ANN401  (any JSON)
    (root / "manifest.json").write_text(json.dumps({"schema_version": "1.0"} | members))
    return root


def one_variant(**body: Any) -> dict[str, Any]:  # noqa: ANN401  (any JSON)
    return {"c": {"variants": {"v": body}}}


def members_of(root: Path) -> Iterator[tarfile.TarInfo]:
    for path in sorted(root.rglob("*")):
        info = tarfile.TarInfo(path.relative_to(root).as_posix())
        info.type = tarfile.DIRTYPE if path.is_dir() else tarfile.REGTYPE
        info.size = 0 if path.is_dir() else path.stat().st_size
        yield info


def pack(root: Path, target: Path, *, top: str = "", **options: Any) -> Path:  # noqa: ANN401  (of tarfile)
    """Write an archive of a directory's content, below `top`."""
    with tarfile.open(target, "w", **options) as tar:
        for info in members_of(root):
            data = b"" if info.isdir() else (root / info.name).read_bytes()
            info.name = f"{top}/{info.name}" if top else info.name
            tar.addfile(info, io.BytesIO(data))
    return target


def sent(plan: publish.ImportPlan) -> dict[tuple[str, str], tuple[str, bytes]]:
    """Return kind and content of each payload, by where it goes and its name."""
    found: dict[tuple[str, str], tuple[str, bytes]] = {}
    for item in plan.payloads:
        data = b"".join(item.chunks())
        assert len(data) == item.size
        place = item.asset or f"{item.component}/{item.variant}"
        assert (place, item.name) not in found
        found[place, item.name] = (item.kind, data)
    return found
