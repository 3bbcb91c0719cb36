from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sealcar.errors import (
    DamagedError,
    NotAuthenticError,
    SealcarError,
    UnknownFormatError,
)
from sealcar_server.sealing import record
from sealcar_server.sealing.agreement import compare
from sealcar_server.sealing.canonical import covered
from sealcar_server.sealing.record import (
    RecordAsset,
    RecordPayload,
    RecordVariant,
    SealRecord,
)
from sealcar_server.sealing.strictjson import strict_json

MANIFEST: Final[dict[str, Any]] = {
    "schema_version": "1.0",
    "package_name": "ocr",
    "layout": "portable",
    "shared_assets": {"sha256:" + "0" * 64: "shared_assets/x"},
    "components": {
        "det": {
            "variants": {
                "cpu": {"ep": "CPU", "executor_info": {"ort": {"model_file": "m.onnx"}}},
                "qnn": {"executor_info": {"sealcar": {"format": "1"}}},
            },
        },
        "rec/1": {"component_name": "rec/1", "variants": {"a": {}, "b": {}}},
    },
}


def sealed(manifest: dict[str, Any]) -> SealRecord:
    found = covered(manifest)
    payloads = (
        RecordPayload("m.onnx", "model", 10, commitment=b"c" * 32, digest=b"d" * 32),
        RecordPayload("ctx/é.bin", "blob", 0, commitment=b"e" * 32),
        RecordPayload("labels.txt", "other", 3, sealed=False, sha256=b"s" * 32),
    )
    return SealRecord(
        name="ocr",
        version="1",
        package_id=b"i" * 16,
        generation=2,
        previous=b"p" * 32,
        kek_alias="default",
        kek_version="1",
        wrapped=b"w" * 60,
        package=found.package,
        components=found.components,
        variants=tuple(
            RecordVariant(item.component, item.variant, item.body, item.executor_info, payloads)
            for item in found.variants
        ),
        assets=(RecordAsset("sha256:" + "0" * 64, b"a" * 16, b"k" * 60, payloads[:1]),),
    )


RECORD: Final = sealed(MANIFEST)
# component names are checked as parts of paths: "rec/1" can't stand in a record
STORED: Final = replace(
    RECORD,
    components=RECORD.components[:1],
    variants=RECORD.variants[:2],
)


def changed(*path: str | int, to: object = None, remove: bool = False) -> bytes:
    value = json.loads(record.serialise(STORED))
    inner: Any = value
    for step in path[:-1]:
        inner = inner[step]
    if remove:
        del inner[path[-1]]
    else:
        inner[path[-1]] = to
    return json.dumps(value).encode()


def test_what_was_serialised_parses_to_the_same_values() -> None:
    assert record.parse(record.serialise(STORED)) == STORED
    first = replace(STORED, generation=1, previous=b"", assets=())
    assert record.parse(record.serialise(first)) == first


def test_a_record_is_compact_json_in_one_order() -> None:
    text = record.serialise(STORED).decode()
    assert text.startswith('{"format":"1","name":"ocr","version":"1","package_id":"aWlp')
    assert "ctx/é.bin" in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("data", "finding"),
    [
        (changed("format", to="2"), "format '2'"),
        (changed("novel", to=1), "know '/novel'"),
        (changed("kek", "novel", to=1), "know '/kek/novel'"),
        (changed("variants", 0, "payloads", 1, "sha256", to="eA"), "/variants/0/payloads/1/sha256"),
        (changed("variants", 0, "payloads", 2, "commitment", to="eA"), "/payloads/2/commitment"),
        (changed("components", 0, "novel", to=1), "know '/components/0/novel'"),
    ],
)
def test_what_a_newer_release_may_have_written_is_named_as_unknown(
    data: bytes, finding: str
) -> None:
    with pytest.raises(UnknownFormatError, match=finding):
        record.parse(data)


@pytest.mark.parametrize(
    ("data", "finding"),
    [
        (b"", "seal record: not JSON"),
        (b"[]", "/ isn't an object"),
        (b'{"format":"1","format":"1"}', "stands twice"),
        (changed("generation", remove=True), "/generation is missing"),
        (changed("generation", to=0), "/generation must be from 1"),
        (changed("generation", to=True), "/generation must be int"),
        (changed("generation", to="2"), "/generation must be int"),
        (changed("generation", to=1 << 63), "2\\^63-1"),
        (changed("name", to="../etc"), "/name package name"),
        (changed("version", to=""), "/version"),
        (changed("package_id", to="aWk"), "/package_id must not have 2 bytes"),
        (changed("package_id", to="aWk="), "/package_id isn't base64url"),
        (changed("package_id", to="é"), "/package_id isn't base64url"),
        (changed("package_id", to="aWlpaWlpaWlpaWlpaWlpaX"), "isn't base64url"),
        (changed("previous", to=None), "/previous must be str"),
        (changed("kek", to=[]), "/kek must be dict"),
        (changed("kek", "wrapped", to=""), "/kek/wrapped must not have 0 bytes"),
        (changed("package", "layout", to="eA"), "/package/layout must not have 1 bytes"),
        (changed("components", 0, to=1), "/components/0 isn't an object"),
        (changed("components", 0, "component", to="a/b"), "/components/0/component"),
        (changed("variants", 1, "variant", to="cpu"), "names one variant twice"),
        (changed("variants", 0, "variant", to=".x"), "/variants/0/variant"),
        (changed("variants", 0, "payloads", 0, "kind", to="text"), "/payloads/0/kind must be one"),
        (changed("variants", 0, "payloads", 0, "name", to="../x"), "/payloads/0/name"),
        (changed("variants", 0, "payloads", 0, "name", to="manifest.json"), "a name of the format"),
        (changed("variants", 0, "payloads", 0, "name", to="CTX/É.bin"), "one payload twice"),
        (changed("variants", 0, "payloads", 0, "sealed", to=1), "/payloads/0/sealed must be bool"),
        (changed("variants", 0, "payloads", 0, "size", to=-1), "/payloads/0/size"),
        (changed("variants", 0, "payloads", 0, "size", to=(1 << 63) - 1), "bytes together"),
        (changed("variants", 0, "payloads", 0, "commitment", remove=True), "commitment is missing"),
        (changed("variants", 0, "payloads", 2, "sha256", remove=True), "sha256 is missing"),
        (changed("assets", 0, "asset_id", to="eA"), "/assets/0/asset_id"),
        (changed("assets", 0, "wrapped", to="eA"), "/assets/0/wrapped"),
    ],
)
def test_what_no_release_writes_is_refused_by_its_place(data: bytes, finding: str) -> None:
    with pytest.raises(NotAuthenticError, match=finding):
        record.parse(data)


@given(st.binary(max_size=60))
def test_any_bytes_parse_or_raise_damaged(data: bytes) -> None:
    with pytest.raises(DamagedError):
        record.parse(data)


@settings(max_examples=300)
@given(st.integers(0, 10_000), st.binary(min_size=1, max_size=3))
def test_a_damaged_record_parses_or_raises_one_of_our_errors(at: int, bad: bytes) -> None:
    data = bytearray(record.serialise(STORED))
    data[at % len(data) : at % len(data) + len(bad)] = bad
    try:
        record.parse(bytes(data))
    except SealcarError as error:
        assert isinstance(error, DamagedError)  # noqa: PT017  (it may also parse)


def test_an_envelope_opens_to_what_went_in() -> None:
    envelope = record.envelope(b"{}", b"t" * 32)
    assert envelope["format"] == "1"
    manifest: Any = {"additional_metadata": {"other": 1, "sealcar": envelope}}
    assert record.open_envelope(manifest) == (b"{}", b"t" * 32)


@pytest.mark.parametrize(
    "manifest", [[], {}, {"additional_metadata": 1}, {"additional_metadata": {}}]
)
def test_a_package_that_isn_t_sealed_is_named_as_such(manifest: Any) -> None:  # noqa: ANN401
    with pytest.raises(UnknownFormatError, match="didn't seal it"):
        record.open_envelope(manifest)


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ({"format": "2"}, "format '2'"),
        ({"record": "e30="}, "/additional_metadata/sealcar/record isn't base64url"),
        ({"record": 1}, "record must be str"),
        ({"tag": "eA"}, "tag must not have 1 bytes"),
        ({"more": 1}, "know '/additional_metadata/sealcar/more'"),
    ],
)
def test_a_malformed_envelope_is_refused(change: dict[str, Any], finding: str) -> None:
    value: Any = {"sealcar": record.envelope(b"{}", b"t" * 32) | change}
    with pytest.raises(DamagedError, match=finding):
        record.open_envelope({"additional_metadata": value})


def edited(*path: str, to: object = None, remove: bool = False) -> dict[str, Any]:
    manifest = copy.deepcopy(MANIFEST)
    inner: Any = manifest
    for step in path[:-1]:
        inner = inner.setdefault(step, {})
    if remove:
        del inner[path[-1]]
    else:
        inner[path[-1]] = to
    return manifest


CPU: Final = ("components", "det", "variants", "cpu")


@pytest.mark.parametrize(
    ("manifest", "place"),
    [
        (edited("schema_version", to="1.1"), "/schema_version"),
        (edited("schema_version", to=1), "/schema_version"),
        (edited("package_name", remove=True), "/package_name"),
        (edited("package_version", to="2"), "/package_version"),
        (edited("layout", to="installed"), "/layout"),
        (edited("shared_assets", remove=True), "/shared_assets"),
        (edited("shared_assets", "sha256:" + "1" * 64, to="x"), "/shared_assets"),
        (edited("components", "det", "component_name", to="x"), "/components/det"),
        (edited("components", "rec/1", "component_name", to="x"), "/components/rec~11"),
        (edited(*CPU, "ep", to="QNN"), "/components/det/variants/cpu"),
        (edited(*CPU, "device", to="npu"), "/components/det/variants/cpu"),
        (edited(*CPU, "variant_directory", to="../x"), "/components/det/variants/cpu"),
        (
            edited(*CPU, "executor_info", "ort", "model_file", to="x"),
            "/components/det/variants/cpu/executor_info/ort",
        ),
        (
            edited(*CPU, "executor_info", "other", to={}),
            "/components/det/variants/cpu/executor_info/other",
        ),
        (
            edited("components", "det", "variants", "qnn", "executor_info", "sealcar", remove=True),
            "/components/det/variants/qnn/executor_info/sealcar",
        ),
    ],
)
def test_a_changed_covered_field_is_refused_by_its_json_pointer(
    manifest: dict[str, Any], place: str
) -> None:
    with pytest.raises(NotAuthenticError) as caught:
        compare(RECORD, manifest)
    assert f"manifest: {place} isn't what was sealed" in caught.value.message


def test_two_variants_in_another_order_are_refused_since_the_first_wins_a_tie() -> None:
    manifest = copy.deepcopy(MANIFEST)
    variants = manifest["components"]["rec/1"]["variants"]
    manifest["components"]["rec/1"]["variants"] = dict(reversed(variants.items()))
    with pytest.raises(NotAuthenticError, match="/components/rec~11/variants isn't"):
        compare(RECORD, manifest)


@pytest.mark.parametrize(
    "manifest",
    [
        MANIFEST,
        edited("description", to="new"),
        edited("additional_metadata", "mine", to=[1]),
        edited("components", "det", "additional_metadata", to=1),
        edited(*CPU, "additional_metadata", to=1),
        dict(reversed(MANIFEST.items())),
        strict_json(json.dumps(MANIFEST, indent=7, ensure_ascii=True)),
    ],
)
def test_what_nobody_acts_upon_may_change(manifest: dict[str, Any]) -> None:
    differences = compare(RECORD, manifest)
    assert (differences.unsealed, differences.missing) == ((), ())


def test_added_variants_are_reported_as_unsealed_and_lost_ones_as_missing() -> None:
    manifest = copy.deepcopy(MANIFEST)
    manifest["components"]["det"]["variants"] = {
        "new": {},
        "qnn": MANIFEST["components"]["det"]["variants"]["qnn"],
    }
    manifest["components"]["extra"] = {"variants": {"v": {}}}
    del manifest["components"]["rec/1"]
    differences = compare(RECORD, manifest)
    assert differences.unsealed == (("det", "new"), ("extra", "v"))
    assert differences.missing == (("det", "cpu"), ("rec/1", "a"), ("rec/1", "b"))
