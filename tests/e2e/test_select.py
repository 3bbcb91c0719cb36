"""Choosing among the variants of a package in the store, for the session that is to be made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from support import eps, flows, variants, verdicts
from support.daemon import run_command

from sealcar import publish
from sealcar.errors import InvalidRequestError, LockedError, NotFoundError, RuntimeSupportError
from sealcar.ort import load, plain, select
from sealcar.ort.choosing import Offer
from sealcar.ort.selecting import in_package

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from support.daemon import Daemon

    from sealcar.client import Client

CPU: Final = "CPUExecutionProvider"
EP: Final = verdicts.EP


def imported(client: Client, folder: Path, **components: Sequence[Offer]) -> None:
    """Import a package, called as its folder, with these components."""
    client.catalogue.import_(publish.plan(variants.write(folder, components), name=folder.name))


def test_the_best_variant_is_chosen_and_every_other_has_its_reason(
    daemon: Daemon, tmp_path: Path
) -> None:
    offers = [
        Offer("any"),
        Offer("elsewhere", "OtherExecutionProvider", "npu", "optimal"),
        Offer("here", EP, "NPU", "recompile"),
        Offer("tpu", EP, "tpu", "optimal"),
        Offer("old", EP, "", "unsupported"),
        Offer("odd", EP, "", "error"),
        Offer("best", EP, "gpu", "optimal"),
        Offer("as-good", EP, "cpu", "optimal"),
        Offer("silent", EP),
        Offer("unknown", EP, "", "unknown"),
    ]
    with daemon.connect() as client:
        imported(client, tmp_path / "p", c=offers)
        before = flows.decrypted(daemon)
        found = select(client, "p", "c", verdicts.options())
        assert flows.decrypted(daemon) == before
    scope = found.scope
    assert (scope.package, scope.version, scope.component) == ("p", "1", "c")
    assert (scope.variant, scope.generation) == ("best", 1)
    assert (found.variant, found.ep, found.score, found.fallback) == ("best", EP, 100, False)
    assert [each.variant for each in found.candidates] == [each.variant for each in offers]
    said = {each.variant: (each.score, each.reason) for each in found.candidates}
    assert said["best"] == (100, "the provider calls it optimal")
    for variant, score, reason in (
        ("any", None, "taken only if nothing else fits"),
        ("elsewhere", None, "it is for 'OtherExecutionProvider'; the session begins with"),
        ("here", 50, "compiled anew; variant 'best' has a higher score"),
        ("tpu", None, "it is for device 'tpu'; the session has cpu, gpu, npu"),
        ("old", None, "doesn't support what it was compiled for"),
        ("odd", None, "failed to judge its compatibility string: 'asked to fail'"),
        ("as-good", 100, "variant 'best' is as good, and declared earlier"),
        ("silent", 0, "it has no compatibility string; variant 'best' has a higher score"),
        ("unknown", 0, "says nothing of its compatibility string; variant 'best'"),
    ):
        assert said[variant][0] == score
        assert reason in said[variant][1]


def test_what_any_provider_can_run_is_taken_only_if_nothing_fits(
    daemon: Daemon, tmp_path: Path
) -> None:
    offers = [Offer("onnx"), Offer("compiled", EP, "npu", "unknown")]
    with daemon.connect() as client:
        imported(client, tmp_path / "p", c=offers)
        imported(client, tmp_path / "one", c=offers[:1])
        for options, variant, ep in (
            (verdicts.options(), "compiled", EP),
            (eps.quiet_options(), "onnx", CPU),
            (None, "onnx", CPU),
        ):
            found = select(client, "p", session_options=options)
            assert (found.variant, found.ep) == (variant, ep)
            assert found.fallback is (variant == "onnx")
            found = select(client, "one", session_options=options)
            assert (found.variant, found.ep, found.fallback) == ("onnx", "", True)
        assert select(client, "p", providers=[CPU]).variant == "onnx"
        # of several such none is guessed
        imported(client, tmp_path / "q", c=[Offer("float"), Offer("int8"), Offer("x", EP)])
        with pytest.raises(InvalidRequestError, match="float, int8; name the variant") as caught:
            select(client, "q")
    assert (caught.value.place.package, caught.value.place.component) == ("q", "c")


def test_where_nothing_fits_the_reasons_are_told(daemon: Daemon, tmp_path: Path) -> None:
    twice = verdicts.options(["npu"])
    twice.add_provider_for_devices([verdicts.devices()["gpu"]], {})
    with daemon.connect() as client:
        imported(client, tmp_path / "p", c=[Offer("a", EP), Offer("b", EP, "npu")])
        with pytest.raises(RuntimeSupportError, match=rf"'a': it is for '{EP}'.* 'b': ") as caught:
            select(client, "p")
        assert f"no variant fits '{CPU}'" in str(caught.value)
        with pytest.raises(RuntimeSupportError, match=r"no session can be made .* already been"):
            select(client, "p", session_options=twice)


def test_a_component_must_be_named_where_there_are_several(daemon: Daemon, tmp_path: Path) -> None:
    with daemon.connect() as client:
        imported(client, tmp_path / "p", a=[Offer("x")], b=[Offer("y")])
        with pytest.raises(InvalidRequestError, match="one of a, b"):
            select(client, "p")
        assert select(client, "p", "b").variant == "y"
        with pytest.raises(NotFoundError, match="no component 'c'"):
            select(client, "p", "c")
        with pytest.raises(NotFoundError):
            select(client, "other")


def test_in_a_plain_package_the_same_is_chosen_and_the_same_refused(tmp_path: Path) -> None:
    offers = [Offer("any"), Offer("old", EP, "", "unsupported"), Offer("best", EP, "", "optimal")]
    folder = variants.write(tmp_path / "p", {"c": offers, "d": offers[1:2], "e": offers[:2]})
    package = plain.open_package(folder)
    assert in_package(package, "c", verdicts.options()) == ("c", "best")
    assert in_package(package, "e", verdicts.options()) == ("e", "any")
    assert load(folder, component="e", session_options=verdicts.options()).get_inputs()
    with pytest.raises(InvalidRequestError, match="one of c, d, e"):
        load(folder, session_options=verdicts.options())
    with pytest.raises(RuntimeSupportError, match="no variant fits"):
        load(folder, component="d", session_options=verdicts.options())
    with pytest.raises(NotFoundError):
        load(folder, component="f", session_options=verdicts.options())
    named = {"component": "c", "variant": "old", "session_options": verdicts.options()}
    with pytest.raises(RuntimeSupportError, match="allow_unsupported=True") as caught:
        load(folder, **named)
    assert caught.value.place.variant == "old"
    assert load(folder, allow_unsupported=True, **named).get_inputs()


def test_a_selection_names_the_state_that_it_looked_at_which_was_verified(
    daemon: Daemon, tmp_path: Path
) -> None:
    with daemon.connect() as client:
        imported(client, tmp_path / "p", a=[Offer("x")], b=[Offer("y")])
        first = select(client, "p", "a").scope
        with client.begin("p", "a", "best") as transaction:
            transaction.write("m.onnx", client.scope("p", "a", "x").read("m.onnx"), "model")
            transaction.commit(ep=CPU, executor_info={"ort": {"model_file": "m.onnx"}})
        assert select(client, "p", "a").variant == "best"
        assert select(client, "p", "a", generation=first.generation).scope == first
        assert run_command("lock", "--admin", str(daemon.admin)).returncode == 0
        with pytest.raises(LockedError, match="sealcar unlock"):
            select(client, "p", "a")
