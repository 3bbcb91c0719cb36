"""The option tables as data: every row refuses, every harmless option passes, nothing is both."""

from __future__ import annotations

import pytest

from sealcar.errors import PlaintextRefusedError
from sealcar.ort.options import Refused, check_caller, findings, of_package, table, tables

PROVIDERS = ("qnn", "openvino", "nv_tensorrt_rtx", "tensorrt", "cuda")
ROWS = [(name, row) for name in PROVIDERS for row in tables()[name].refused.values()]
SESSION_ROWS = list(tables()["session"].refused.values())
HARMLESS = [(name, option) for name in PROVIDERS for option in sorted(tables()[name].harmless)]
KINDS = {"writes files", "reads a file", "loads a library", "names a path", "borrows memory"}


def key(table_name: str, option: str) -> str:
    return f"ep.{tables()[table_name].ep.lower()}.{option}"


@pytest.mark.parametrize(("name", "row"), ROWS, ids=lambda v: getattr(v, "option", v))
def test_a_refused_provider_option_is_refused_from_the_caller(name: str, row: Refused) -> None:
    with pytest.raises(PlaintextRefusedError) as caught:
        check_caller({key(name, row.option): "elsewhere/x"}, allow_plaintext_files=False)
    assert row.option in str(caught.value)
    assert row.what in str(caught.value)
    assert "allow_plaintext_files=True" in str(caught.value)
    check_caller({key(name, row.option): "elsewhere/x"}, allow_plaintext_files=True)


@pytest.mark.parametrize(("name", "row"), ROWS, ids=lambda v: getattr(v, "option", v))
def test_a_refused_provider_option_is_never_applied_from_a_package(name: str, row: Refused) -> None:
    for value in ("1", *row.off):
        taken = of_package(tables()[name].ep, {}, {row.option: value})
        assert not taken.entries
        assert [found.option for found in taken.dropped] == [row.option]


@pytest.mark.parametrize("row", SESSION_ROWS, ids=lambda row: row.option)
def test_a_refused_session_option_is_refused_from_the_caller_and_dropped_from_a_package(
    row: Refused,
) -> None:
    with pytest.raises(PlaintextRefusedError, match=row.option):
        check_caller({row.option: "elsewhere/x"}, allow_plaintext_files=False)
    taken = of_package("QNNExecutionProvider", {row.option: "1"}, {})
    assert not taken.entries
    assert [found.option for found in taken.dropped] == [row.option]


@pytest.mark.parametrize(
    "row", [row for _, row in ROWS if row.off] + [row for row in SESSION_ROWS if row.off]
)
def test_a_refused_option_that_is_switched_off_is_no_objection(row: Refused) -> None:
    owner = next(t for t in tables().values() if row.option in t.refused)
    assert all(owner.objection(row.option, value) == "" for value in row.off)
    assert owner.objection(row.option, "1")


@pytest.mark.parametrize(("name", "option"), HARMLESS)
def test_a_harmless_option_passes_from_both(name: str, option: str) -> None:
    entry = key(name, option)
    assert findings({entry: "1"}) == []
    assert of_package(tables()[name].ep, {}, {option: "1"}).entries == {entry: "1"}


def test_options_that_only_the_caller_can_judge_are_dropped_from_a_package() -> None:
    for each in tables().values():
        for option in each.caller:
            session = each is tables()["session"]
            taken = of_package(
                each.ep or "Unknown",
                {option: "1"} if session else {},
                {} if session else {option: "1"},
            )
            assert not taken.entries
            assert findings({option if session else f"ep.{each.ep or 'x'}.{option}": "1"}) == []


def test_a_provider_has_the_table_with_its_name_whatever_the_case() -> None:
    for each in tables().values():
        assert all(table(name) is each for name in each.names)
    assert table("QNNExecutionProvider") is tables()["qnn"]
    # what stands in a table isn't its name
    for ep in ("", "device_id", "names a path", '"', "qnn.toml"):
        assert table(ep) is tables()["unknown"]


def test_an_unknown_provider_has_an_allow_list_only() -> None:
    assert findings({"ep.unheardof.device_id": "0"}) == []
    (found,) = findings({"ep.unheardof.fast": "1"})
    assert "isn't known" in str(found)
    taken = of_package("UnheardOf", {}, {"device_id": "0", "fast": "1"})
    assert taken.entries == {"ep.unheardof.device_id": "0"}
    assert [found.option for found in taken.dropped] == ["fast"]


def test_an_unknown_option_of_a_known_provider_or_of_the_runtime_is_refused() -> None:
    asked = {"ep.qnnexecutionprovider.new_dump_dir": "/x", "session.new_dump_file": "/x"}
    assert {found.option for found in findings(asked)} == asked.keys()


def test_an_entry_of_somebodys_custom_operators_passes() -> None:
    assert findings({"acme.tokenizer.vocabulary": "/x"}) == []


def test_options_of_a_provider_without_entries_are_checked_too() -> None:
    providers = [
        ("CUDAExecutionProvider", {"device_id": "0", "dump": "1"}),
        ("TensorrtExecutionProvider", {"trt_engine_cache_enable": "1", "trt_fp16_enable": "1"}),
    ]
    assert [found.option for found in findings({}, providers)] == [
        "CUDAExecutionProvider dump",
        "TensorrtExecutionProvider trt_engine_cache_enable",
    ]


def test_provider_options_of_a_variant_for_any_provider_are_dropped() -> None:
    taken = of_package("", {"session.disable_prepacking": "1"}, {"device_id": "0"})
    assert taken.entries == {"session.disable_prepacking": "1"}
    assert "names no execution provider" in str(taken.dropped[0])


def test_a_value_never_appears_in_the_error() -> None:
    with pytest.raises(PlaintextRefusedError) as caught:
        check_caller(
            {"session.optimized_model_filepath": "/home/me/secret-name.onnx"},
            allow_plaintext_files=False,
        )
    assert "secret-name" not in str(caught.value)


def test_the_tables_are_consistent() -> None:
    for each in tables().values():
        assert not each.harmless & each.caller
        assert not (each.harmless | each.caller) & each.refused.keys()
        assert each.read_from
        assert {row.does for row in each.refused.values()} <= KINDS
        assert set(each.names) == {name.lower() for name in each.names}
