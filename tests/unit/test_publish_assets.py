"""What an import sends of shared assets, and of what variants say of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.onnx_models import ep_context, inline, located, model, raw
from support.publishing import asset_uri, one_variant, sent, with_asset, write, write_manifest

from sealcar import modelpackage, publish
from sealcar.errors import InvalidPackageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

V = "c/v"
WEIGHTS = {"w.bin": bytes(range(16)), "sub/notes.txt": b"notes"}
FOLDER = "session.model_external_initializers_file_folder_path"
CONTEXT = "ep.context_file_path"
MODEL = raw(model(inline("W", [1, 2])))
EXTERNAL = raw(model(located("w.bin")))
BIG = raw(model(inline("W", range(100_000))))


def package(root: Path, variant: Mapping[str, bytes] | None = None, **info: Any) -> Path:  # noqa: ANN401
    """Write a package of one variant that tells executors this."""
    if variant is not None:
        write(root / "v", variant)
    return write_manifest(root, components=one_variant(executor_info=info), package_name="p")


def ort(model_file: str, **options: str) -> dict[str, Any]:
    return {"model_file": model_file} | ({"session_options": options} if options else {})


def found(root: Path, **options: Any) -> dict[tuple[str, str], tuple[str, bytes]]:  # noqa: ANN401
    with publish.plan(root, **options) as plan:
        return sent(plan)


def refused(root: Path) -> str:
    with pytest.raises(InvalidPackageError) as caught:
        publish.plan(root)
    return str(caught.value)


def test_our_hash_of_these_files_is_that_of_the_format(tmp_path: Path) -> None:
    assert modelpackage.hash_directory(write(tmp_path, WEIGHTS)) == asset_uri(WEIGHTS)


def test_an_asset_is_sent_under_its_uri_whether_or_not_anything_refers_to_it(
    tmp_path: Path,
) -> None:
    uri = with_asset(tmp_path, WEIGHTS)
    assert found(package(tmp_path, {"m.onnx": MODEL})) == {
        (uri, "sub/notes.txt"): ("other", b"notes"),
        (uri, "w.bin"): ("other", WEIGHTS["w.bin"]),
        (V, "m.onnx"): ("model", MODEL),
    }


def test_assets_come_first_and_the_manifest_names_none_but_where_variants_do(
    tmp_path: Path,
) -> None:
    uri = with_asset(tmp_path, WEIGHTS)
    root = package(tmp_path, {"m.onnx": EXTERNAL}, ort=ort("m.onnx", **{FOLDER: uri}))
    with publish.plan(root) as plan:
        assert [item.asset for item in plan.payloads] == [uri, uri, ""]
        manifest = json.loads(plan.manifest_json)
    assert "shared_assets" not in manifest
    options = manifest["components"]["c"]["variants"]["v"]["executor_info"]["ort"]
    assert options["session_options"] == {FOLDER: uri}


def test_an_asset_elsewhere_in_the_package_is_sent_as_well(tmp_path: Path) -> None:
    write(tmp_path / "weights", WEIGHTS)
    write(tmp_path / "v", {"m.onnx": MODEL})
    uri = asset_uri(WEIGHTS)
    write_manifest(
        tmp_path, components=one_variant(), shared_assets={uri: "weights"}, package_name="p"
    )
    assert (uri, "w.bin") in found(tmp_path)


@pytest.mark.parametrize("place", ["default", "declared"])
def test_content_that_is_not_what_its_uri_says_is_refused_before_anything_is_sent(
    tmp_path: Path, place: str
) -> None:
    uri = with_asset(tmp_path, WEIGHTS)
    folder = tmp_path / "shared_assets" / uri.replace(":", "-")
    members: dict[str, Any] = {}
    if place == "declared":
        folder = folder.rename(tmp_path / "weights")
        members = {"shared_assets": {uri: "weights"}}
    (folder / "w.bin").write_bytes(bytes(16))
    write(tmp_path / "v", {"m.onnx": MODEL})
    write_manifest(tmp_path, components=one_variant(), package_name="p", **members)
    message = refused(tmp_path)
    assert uri in message
    assert "isn't what its name says" in message


def test_a_file_put_into_an_asset_after_the_check_is_noticed_while_it_is_sent(
    tmp_path: Path,
) -> None:
    uri = with_asset(tmp_path, WEIGHTS)
    with publish.plan(package(tmp_path, {"m.onnx": MODEL})) as plan:
        (tmp_path / "shared_assets" / uri.replace(":", "-") / "w.bin").write_bytes(b"other")
        with pytest.raises(InvalidPackageError, match="changed"):
            sent(plan)


def test_what_an_asset_may_hold_is_what_a_variant_may(tmp_path: Path) -> None:
    uri = with_asset(tmp_path, WEIGHTS)
    folder = tmp_path / "shared_assets" / uri.replace(":", "-")
    package(tmp_path, {"m.onnx": MODEL})
    for name, reason in (("link", "symbolic link"), (".hidden", "dot"), ("hard", "hard links")):
        entry = folder / name
        if name == "link":
            entry.symlink_to("w.bin")
        elif name == "hard":
            entry.hardlink_to(folder / "w.bin")
        else:
            entry.write_bytes(b"")
        message = refused(tmp_path)
        assert uri in message
        assert reason in message
        entry.unlink()
    found(tmp_path)


def test_a_name_in_an_asset_leaves_room_for_the_name_of_the_asset(tmp_path: Path) -> None:
    uri = with_asset(tmp_path, {"/".join("abcdefghijklmnop"): b"16 deep"})
    message = refused(package(tmp_path, {"m.onnx": MODEL}))
    assert uri in message
    assert "over 16 components" in message


def test_an_asset_without_a_file_is_refused(tmp_path: Path) -> None:
    uri = with_asset(tmp_path, {})
    (tmp_path / "shared_assets" / uri.replace(":", "-")).mkdir(parents=True)
    assert "no files" in refused(package(tmp_path, {"m.onnx": MODEL}))


def test_external_data_is_looked_for_in_the_folder_that_the_variant_names(tmp_path: Path) -> None:
    uri = with_asset(tmp_path, WEIGHTS)
    root = package(tmp_path, {"m.onnx": EXTERNAL}, ort=ort("m.onnx", **{FOLDER: uri}))
    assert found(root)[uri, "w.bin"] == ("initializers", WEIGHTS["w.bin"])


def test_a_folder_may_be_one_inside_an_asset_or_inside_the_variant(tmp_path: Path) -> None:
    uri = with_asset(tmp_path, {f"deep/{name}": data for name, data in WEIGHTS.items()})
    root = package(tmp_path, {"m.onnx": EXTERNAL}, ort=ort("m.onnx", **{FOLDER: f"{uri}/deep/"}))
    assert found(root)[uri, "deep/w.bin"][0] == "initializers"
    write(tmp_path / "v", {"own/w.bin": bytes(16)})
    package(tmp_path, ort=ort("./m.onnx", **{FOLDER: "own"}))
    assert found(root)[V, "own/w.bin"][0] == "initializers"


def test_data_beside_the_model_does_not_count_if_another_folder_is_named(tmp_path: Path) -> None:
    uri = with_asset(tmp_path, {"other.bin": b"x"})
    files = {"m.onnx": EXTERNAL, "w.bin": bytes(16)}
    message = refused(package(tmp_path, files, ort=ort("m.onnx", **{FOLDER: uri})))
    assert "tensor 'W'" in message
    assert "does not exist" in message


def test_data_in_an_asset_obeys_the_rules_of_external_data(tmp_path: Path) -> None:
    uri = with_asset(tmp_path, {"w.bin": bytes(15)})
    root = package(tmp_path, {"m.onnx": EXTERNAL}, ort=ort("m.onnx", **{FOLDER: uri}))
    assert "lies beyond the 15 bytes" in refused(root)


def test_a_model_in_an_asset_has_its_data_in_the_same_asset(tmp_path: Path) -> None:
    files = {"m.onnx": EXTERNAL, "w.bin": bytes(16)}
    uri = with_asset(tmp_path, files)
    root = package(tmp_path, ort=ort(f"{uri}/m.onnx"))
    assert found(root) == {
        (uri, "m.onnx"): ("model", EXTERNAL),
        (uri, "w.bin"): ("initializers", bytes(16)),
    }


def test_a_model_in_an_asset_does_not_find_data_in_the_variant(tmp_path: Path) -> None:
    uri = with_asset(tmp_path, {"m.onnx": EXTERNAL})
    root = package(tmp_path, {"w.bin": bytes(16)}, ort=ort(f"{uri}/m.onnx"))
    assert "'w.bin' does not exist" in refused(root)
    package(tmp_path, ort=ort(f"{uri}/m.onnx", **{FOLDER: "."}))
    assert found(root)[V, "w.bin"][0] == "initializers"


def test_models_in_assets_stay_byte_for_byte_what_they_are(tmp_path: Path) -> None:
    uri = with_asset(tmp_path, {"m.onnx": BIG, "unused.onnx": BIG})
    assert found(package(tmp_path, ort=ort(f"{uri}/m.onnx"))) == {
        (uri, "m.onnx"): ("model", BIG),
        (uri, "unused.onnx"): ("model", BIG),
    }


def test_an_asset_of_two_variants_is_sent_once(tmp_path: Path) -> None:
    uri = with_asset(tmp_path, {"m.onnx": EXTERNAL, "w.bin": bytes(16)})
    body = {"executor_info": {"ort": ort(f"{uri}/m.onnx")}}
    write_manifest(
        tmp_path, package_name="p", components={"c": {"variants": {"a": body, "b": body}}}
    )
    assert set(found(tmp_path)) == {(uri, "m.onnx"), (uri, "w.bin")}


def test_nothing_moves_out_of_a_model_whose_data_is_looked_for_elsewhere(tmp_path: Path) -> None:
    uri = with_asset(tmp_path, WEIGHTS)
    root = package(tmp_path, {"m.onnx": BIG}, ort=ort("m.onnx", **{FOLDER: uri}))
    assert found(root)[V, "m.onnx"] == ("model", BIG)


def test_blobs_are_looked_for_beside_the_context_file_that_the_variant_names(
    tmp_path: Path,
) -> None:
    uri = with_asset(tmp_path, {"m_qnn.bin": b"blob"})
    node = ep_context(embed_mode=0, ep_cache_context="m_qnn.bin", main_context=1)
    compiled = raw(model(nodes=[node]))
    root = package(tmp_path, {"m.onnx": compiled}, ort=ort("m.onnx", **{CONTEXT: f"{uri}/m.onnx"}))
    assert found(root)[uri, "m_qnn.bin"] == ("blob", b"blob")
    package(tmp_path, ort=ort("m.onnx"))
    assert "'m_qnn.bin' does not exist" in refused(root)


@pytest.mark.parametrize("place", ["{uri}/sub/any.onnx", "sub/any.onnx"])
def test_blobs_lie_at_the_top_of_what_they_lie_in(tmp_path: Path, place: str) -> None:
    uri = with_asset(tmp_path, {"sub/m_qnn.bin": b"blob"})
    node = ep_context(embed_mode=0, ep_cache_context="m_qnn.bin", main_context=1)
    files = {"m.onnx": raw(model(nodes=[node])), "sub/m_qnn.bin": b"blob"}
    told = ort("m.onnx", **{CONTEXT: place.replace("{uri}", uri)})
    assert "must lie in the variant's directory itself" in refused(
        package(tmp_path, files, ort=told)
    )
    write(tmp_path / "v" / "sub", {"m.onnx": files["m.onnx"]})
    package(tmp_path, ort=ort("sub/m.onnx", **{CONTEXT: "any.onnx"}))
    assert "must lie in the variant's directory itself" in refused(tmp_path)


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (ort("sha256:" + "1" * 64 + "/m.onnx"), "no asset of the package"),
        (ort("{uri}"), "must name a file"),
        (ort("{uri}/"), "must name a file"),
        (ort("{uri}//etc/passwd"), "must lie in the asset"),
        (ort("{uri}/../m.onnx"), "must lie in the asset"),
        (ort("{uri}/missing.onnx"), "is not in asset"),
        (ort("../m.onnx"), "must lie in the variant's directory"),
        (ort("/m.onnx"), "must lie in the variant's directory"),
        (ort(""), "must lie in the variant's directory"),
        (ort("SHA256:" + "1" * 64 + "/m.onnx"), "not among the variant's files"),
        ({"model_file": 1}, "must be text"),
        ({"session_options": []}, "must be an object"),
        (ort("m.onnx", **{CONTEXT: "{uri}"}), "must name a file"),
    ],
)
def test_a_reference_that_leads_nowhere_or_out_is_refused_by_name(
    tmp_path: Path, told: dict[str, Any], reason: str
) -> None:
    uri = with_asset(tmp_path, WEIGHTS)
    info = json.loads(json.dumps(told).replace("{uri}", uri))
    message = refused(package(tmp_path, {"m.onnx": MODEL}, ort=info))
    assert reason in message
    assert message.startswith("c/v: ")


def test_a_variant_without_a_directory_needs_a_model_in_an_asset(tmp_path: Path) -> None:
    assert "no directory" in refused(package(tmp_path, ort=ort("m.onnx")))


def test_other_executors_keep_a_copy_of_each_asset_that_they_are_told_of(tmp_path: Path) -> None:
    uri = with_asset(tmp_path, WEIGHTS)
    unused = with_asset(tmp_path, {"x": b"unused"})
    own = {"tokens": [{"deep": f"{uri}/sub/notes.txt"}], "note": f"see {unused}", "n": 1.5}
    root = package(tmp_path, {"m.onnx": MODEL}, own=own, ort=ort("m.onnx"))
    copy = uri.replace(":", "-")
    assert {name: kind for (place, name), (kind, _) in found(root).items() if place == V} == {
        "m.onnx": "model",
        f"{copy}/sub/notes.txt": "other",
        f"{copy}/w.bin": "other",
    }
    assert found(root)[V, f"{copy}/w.bin"][1] == WEIGHTS["w.bin"]


def test_what_only_looks_like_the_uri_of_an_asset_is_left_alone(tmp_path: Path) -> None:
    own = {"digest": "sha256:" + "2" * 64}
    assert set(found(package(tmp_path, {"m.onnx": MODEL}, own=own))) == {(V, "m.onnx")}


def test_a_file_in_the_place_of_such_a_copy_is_refused(tmp_path: Path) -> None:
    uri = with_asset(tmp_path, {"x": b"asset"})
    files = {"m.onnx": MODEL, f"{uri.replace(':', '-')}/x": b"another"}
    assert "copy of an asset" in refused(package(tmp_path, files, own={"a": uri}))
