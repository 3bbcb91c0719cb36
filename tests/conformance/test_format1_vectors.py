"""Known answers of sealcar's own format: keys, record, payloads, and ten damaged packages."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from data.make_format1 import FOLDER, PAYLOADS, SCOPE, TARGET, fixed, make
from support.streams import unseal

from sealcar import errors
from sealcar_server.keys.file import FileProvider
from sealcar_server.keys.provider import WrappedKey, package_context
from sealcar_server.sealing import agreement, record
from sealcar_server.sealing.derivation import PackageKeys
from sealcar_server.sealing.fields import b64, unb64
from sealcar_server.sealing.secret import SecretBuffer
from sealcar_server.sealing.strictjson import strict_json
from sealcar_server.sealing.writer import SealedSize

if TYPE_CHECKING:
    from collections.abc import Mapping

VECTORS: Final[dict[str, Any]] = json.loads((TARGET / "vectors.json").read_text())
BROKEN: Final[list[dict[str, Any]]] = json.loads((TARGET / "broken.json").read_text())


@pytest.fixture
def package(tmp_path: Path) -> Path:
    copied = shutil.copytree(TARGET, tmp_path / "format1")
    (copied / "kek").chmod(0o600)
    return copied


def open_package(package: Path) -> dict[str, bytes]:
    """Return all plaintexts, after every check that the format asks for."""
    folder = package / "store" / FOLDER
    manifest = strict_json((folder / "manifest.json").read_bytes())
    text, tag = record.open_envelope(manifest)
    sealed = record.parse(text)
    provider = FileProvider(package / "kek")
    context = package_context(sealed.package_id)
    root = provider.unwrap(WrappedKey(sealed.kek_version, sealed.wrapped), context)
    provider.close()
    with PackageKeys(root, sealed.package_id) as keys:
        keys.verify_tag(text, tag)
        agreement.compare(sealed, manifest)
        (variant,) = sealed.variants
        return {
            item.name: unseal(
                folder / "/".join(SCOPE) / item.name,
                keys.variant(*SCOPE, item.name),
                SealedSize(item.size, item.commitment),
            )
            for item in variant.payloads
        }


def damage(package: Path, change: Mapping[str, Any]) -> None:
    folder = package / "store" / FOLDER
    manifest = folder / "manifest.json"
    if "swap" in change:
        one, other = (folder / name for name in change["swap"])
        aside = folder / "aside"
        one.rename(aside), other.rename(one), aside.rename(other)
    elif "manifest" in change:
        before, after = change["manifest"]
        manifest.write_text(replaced(manifest.read_text(), before, after))
    elif "record" in change:
        value = json.loads(manifest.read_text())
        envelope = value["additional_metadata"]["sealcar"]
        before, after = (part.encode() for part in change["record"])
        envelope["record"] = b64(replaced(unb64(envelope["record"]), before, after))
        manifest.write_text(json.dumps(value))
    else:
        edit_file(folder / change["file"], change)


def replaced(text: Any, before: Any, after: Any) -> Any:  # noqa: ANN401  (str or bytes)
    assert before in text
    return text.replace(before, after, 1)


def edit_file(path: Path, change: Mapping[str, Any]) -> None:
    if "cut" in change:
        os.truncate(path, change["cut"])
        return
    data = bytearray(path.read_bytes())
    if "flip" in change:
        data[change["flip"]] ^= 1
    path.write_bytes(data + bytes.fromhex(change.get("append", "")))


def test_the_committed_files_are_what_the_script_makes(tmp_path: Path) -> None:
    make(tmp_path)
    made = {path.relative_to(tmp_path): path for path in tmp_path.rglob("*") if path.is_file()}
    kept = {path.relative_to(TARGET): path for path in TARGET.rglob("*") if path.is_file()}
    assert set(kept) - set(made) == {Path("README.md")}
    for name, path in made.items():
        assert path.read_bytes() == kept[name].read_bytes(), name


def test_the_package_opens_to_its_plaintexts(package: Path) -> None:
    assert open_package(package) == {
        name: fixed(f"plaintext of {name}", size) for name, _, size, _ in PAYLOADS
    }


def test_there_are_ten_damaged_packages() -> None:
    assert len({json.dumps(case["change"]) for case in BROKEN}) == 10


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case["what"])
def test_a_damaged_package_is_refused_with_the_finding(
    case: Mapping[str, Any], package: Path
) -> None:
    damage(package, case["change"])
    with pytest.raises(getattr(errors, case["error"]), match=case["words"]):
        open_package(package)


def test_the_asset_s_key_unwraps_and_derives_as_committed() -> None:
    asset = {name: value for name, value in VECTORS["asset"].items() if name != "name"}
    known = {name: bytes.fromhex(value) for name, value in asset.items()}
    root = SecretBuffer.copy_of(bytes.fromhex(VECTORS["package_key"]))
    with (
        PackageKeys(root, bytes.fromhex(VECTORS["package_id"])) as keys,
        keys.unwrap_asset(known["wrapped"], known["asset_id"]) as asset_key,
    ):
        assert bytes(asset_key.view) == known["asset_key"]
        payload = keys.asset(asset_key, known["asset_id"], VECTORS["asset"]["name"])
    assert payload.key == known["stream_key"]
    assert payload.associated_data == known["associated_data"]
