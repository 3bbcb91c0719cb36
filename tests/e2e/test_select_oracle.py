"""Our choice among variants against the runtime's own, for as many packages as it takes."""

from __future__ import annotations

import itertools
import json
import tempfile
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import eps, models, verdicts

from sealcar.errors import InvalidRequestError, RuntimeSupportError
from sealcar.ort import runtime
from sealcar.ort.choosing import Offer, choose

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CPU: Final = "CPUExecutionProvider"
ORACLE: Final = hasattr(runtime.onnxruntime(), "ModelPackageContext")
ANSWERS: Final = ("", "optimal", "recompile", "unknown", "unsupported", "error")
TEXTS: Final = (
    *ANSWERS,
    *(f"{a}:optimal,{b}:unsupported" for a, b in itertools.permutations(verdicts.KINDS, 2)),
    "count:1",
    "count:2",
    "count:3",
)
# in the runtime's order: in which order a caller added them can't be found out
KINDS: Final = tuple(
    kinds for size in (1, 2, 3) for kinds in itertools.combinations(verdicts.KINDS, size)
)


def native_choice(offers: Sequence[Offer], options: runtime.Untyped) -> str | None:
    """Return the variant that the runtime chooses, or None."""
    ort = runtime.onnxruntime()
    bodies: dict[str, Any] = {}
    for offer in offers:
        said = {"ep": offer.ep, "device": offer.device, "compatibility_string": offer.compatibility}
        bodies[offer.variant] = said
    manifest = {"schema_version": "1.0", "components": {"c": {"variants": bodies}}}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "manifest.json").write_text(json.dumps(manifest))
        context = ort.ModelPackageContext(folder)
        try:
            chosen = context.select_component("c", ort.ModelPackageOptions(options))
        except RuntimeError as error:
            if "No suitable model variant" in str(error):
                return None
            raise
        return str(chosen.get_selected_variant_name())


def our_choice(offers: Sequence[Offer], options: runtime.Untyped) -> str | None:
    """Return the variant that we choose and that names the provider, or None."""
    try:
        chosen = choose(offers, options)
    except (InvalidRequestError, RuntimeSupportError):
        return None
    return None if chosen.fallback else chosen.variant


def offers_of(*said: tuple[str, str, str]) -> list[Offer]:
    return [Offer(f"v{n}", ep, device, text) for n, (ep, device, text) in enumerate(said)]


variant = st.tuples(
    st.sampled_from((verdicts.EP, verdicts.EP, verdicts.EP, verdicts.EP.lower(), CPU, "")),
    st.sampled_from(("", "", "cpu", "gpu", "npu", "NPU", "Gpu", "tpu", " cpu")),
    st.sampled_from(TEXTS),
)


@pytest.mark.skipif(not ORACLE, reason="this ONNX Runtime can't choose variants")
@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(said=st.lists(variant, min_size=1, max_size=6), kinds=st.sampled_from(KINDS))
def test_of_any_package_we_choose_as_the_runtime_does(
    said: list[tuple[str, str, str]], kinds: tuple[str, ...]
) -> None:
    offers = offers_of(*said)
    assert our_choice(offers, verdicts.options(kinds)) == native_choice(
        offers, verdicts.options(kinds)
    )


def first_cpu() -> runtime.Untyped:
    options = eps.quiet_options()
    options.add_provider(CPU, {})
    options.add_provider_for_devices([verdicts.devices()["npu"]], {})
    return options


def then_cpu() -> runtime.Untyped:
    options = verdicts.options(["npu"])
    options.add_provider(CPU, {})
    return options


def by_policy(name: str) -> runtime.Untyped:
    verdicts.devices()
    options = eps.quiet_options()
    policies = runtime.onnxruntime().OrtExecutionProviderDevicePolicy
    options.set_provider_selection_policy(getattr(policies, name))
    return options


def by_delegate() -> runtime.Untyped:
    verdicts.devices()
    options = eps.quiet_options()
    options.set_provider_selection_policy_delegate(
        lambda devices, _model, _runtime, _most: [
            each for each in devices if each.ep_name == verdicts.EP
        ][-1:]
    )
    return options


POLICIES: Final = (
    "DEFAULT",
    "PREFER_CPU",
    "PREFER_GPU",
    "PREFER_NPU",
    "MAX_PERFORMANCE",
    "MAX_EFFICIENCY",
)
WAYS: Final[dict[str, Callable[[], runtime.Untyped]]] = {
    "nothing": eps.quiet_options,
    "first the CPU": first_cpu,
    "then the CPU": then_cpu,
    **{f"{name} policy": partial(by_policy, name) for name in POLICIES},
    "a delegate": by_delegate,
}


@pytest.mark.skipif(not ORACLE, reason="this ONNX Runtime can't choose variants")
@pytest.mark.parametrize("way", WAYS)
def test_however_providers_were_configured_we_choose_as_the_runtime_does(way: str) -> None:
    for ep in (verdicts.EP, CPU, "OpenVINOExecutionProvider"):
        for device in ("", *verdicts.KINDS):
            for text in ("", "optimal", *TEXTS[-3:]):
                offers = offers_of((ep, device, text))
                assert our_choice(offers, WAYS[way]()) == native_choice(offers, WAYS[way]())


@cache
def left_behind(name: str) -> str:
    """Return the compatibility string that a plugin leaves in what it compiles here."""
    ort = runtime.onnxruntime()
    compiler = ort.ModelCompiler(
        eps.require(name).options(), models.whole_model(), embed_compiled_data_into_model=True
    )
    found = onnx.load_from_string(compiler.compile_to_bytes()).metadata_props
    (text,) = (each.value for each in found if each.key.startswith("ep_compatibility_info."))
    return str(text)


@pytest.mark.skipif(not ORACLE, reason="this ONNX Runtime can't choose variants")
@pytest.mark.parametrize("name", eps.NAMES)
def test_of_a_published_plugin_s_variants_we_choose_as_the_runtime_does(name: str) -> None:
    ep = eps.require(name)
    texts = ("", left_behind(name), left_behind(name) + "x", "other")
    said = [
        (who, device, text)
        for who in (ep.name, CPU)
        for device in ("", "cpu", "npu")
        for text in texts
    ]
    for one in said:
        offers = offers_of(one)
        assert our_choice(offers, ep.options()) == native_choice(offers, ep.options())
    for offers in (offers_of(*said), offers_of(*reversed(said))):
        assert our_choice(offers, ep.options()) == native_choice(offers, ep.options())
