"""A compiled variant that can't run here is refused before a byte of it is decrypted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from support import eps, flows, models, verdicts

from sealcar.errors import RuntimeSupportError
from sealcar.ort import compile as compile_variant
from sealcar.ort import load

if TYPE_CHECKING:
    from pathlib import Path

    from support.daemon import Daemon

    from sealcar.client import Client

CPU: Final = "CPUExecutionProvider"
EP: Final = verdicts.EP
SDK: Final = "epcontext"


def commit(client: Client, variant: str, said: dict[str, Any], *, sdk: object = None) -> None:
    """Publish an ordinary model as a variant that says of itself what a test needs."""
    info: dict[str, object] = {"ort": {"model_file": "model.onnx"}}
    if sdk is not None:
        info[SDK] = {"sdk_versions": sdk}
    with client.begin("p", "main", variant) as transaction:
        transaction.write("model.onnx", models.whole_model(parts=1), "model")
        transaction.commit(executor_info=info, **said)


def test_what_a_provider_can_not_run_is_refused_before_anything_is_decrypted(
    daemon: Daemon, tmp_path: Path
) -> None:
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "s", "p", model=models.whole_model(parts=1))
        commit(client, "old", {"ep": EP, "compatibility": "unsupported"})
        commit(client, "absent", {"ep": "OtherExecutionProvider", "compatibility": "optimal"})
        commit(client, "fit", {"ep": EP, "compatibility": "optimal"})
        commit(client, "unsure", {"ep": EP, "compatibility": "error"}, sdk=["99"])
        commit(client, "plain", {"ep": "OtherExecutionProvider"}, sdk="no list")
        before = flows.decrypted(daemon)
        for variant, options, text in (
            ("old", verdicts.options(), r"'unsupported', the provider doesn't support what"),
            ("old", eps.quiet_options(), rf"for '{EP}'.* only {CPU}; add it to the session opt"),
            ("absent", verdicts.options(), r"register its plugin with sealcar\.ort\.register_ep"),
        ):
            with pytest.raises(RuntimeSupportError, match=text) as caught:
                load(client, "p", variant=variant, session_options=options)
            assert caught.value.place.variant == variant
            assert "allow_unsupported=True" in str(caught.value)
        assert flows.decrypted(daemon) == before

        for variant in ("fit", "unsure", "plain"):  # what isn't known is no reason
            load(client, "p", variant=variant, session_options=verdicts.options())
        assert flows.decrypted(daemon) > before
        load(
            client,
            "p",
            variant="old",
            session_options=verdicts.options(),
            allow_unsupported=True,
        )


@pytest.mark.parametrize("name", eps.NAMES)
def test_a_variant_says_which_sdk_compiled_it_and_is_not_decrypted_with_an_older_one(
    name: str, daemon: Daemon, tmp_path: Path
) -> None:
    ep = eps.require(name)
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "s", "p", model=models.split_model())
        made = compile_variant(
            client, "p", source="onnx", variant="here", session_options=ep.options()
        )
        noted = made.executor_info[SDK]
        assert isinstance(noted, dict)
        (version,) = noted["sdk_versions"]
        major, *rest = version.lstrip("v").split(".")
        newer, older = (".".join([str(int(major) + step), *rest]) for step in (1, -1))
        for variant, sdk in (("newer", newer), ("older", older), ("odd", "newest")):
            commit(client, variant, {"ep": ep.name}, sdk=[sdk])

        before = flows.decrypted(daemon)
        with pytest.raises(RuntimeSupportError, match=f"SDK '{newer}' .* older '{version}'"):
            load(client, "p", variant="newer", session_options=ep.options())
        assert flows.decrypted(daemon) == before
        for variant in ("here", "older", "odd"):
            load(client, "p", variant=variant, session_options=ep.options())


def test_without_a_variant_the_best_one_is_loaded(daemon: Daemon, tmp_path: Path) -> None:
    ep = eps.require("openvino")
    plain = models.split_model(seed=flows.fresh_seed())
    other = models.split_model(seed=flows.fresh_seed())
    want = flows.on_cpu(plain, models.sample_input())
    with daemon.connect() as client:
        flows.publish_model(client, tmp_path / "s", "p", model=other)
        with client.begin("p", "main", "plain") as transaction:
            transaction.write("model.onnx", plain, "model")
            transaction.commit(executor_info={"ort": {"model_file": "model.onnx"}})
        compile_variant(client, "p", source="plain", variant="v", session_options=ep.options())
        with client.begin("p", "main", "stale") as transaction:
            transaction.write("model.onnx", other, "model")
            transaction.commit(ep=ep.name, compatibility="of another machine")

        session = load(client, "p", session_options=ep.options())
        flows.assert_equal_answers(session.run(None, models.sample_input())[0], want)
        assert session.get_providers()[0] == ep.name
