"""Whole pipelines of packages from elsewhere, with every session out of the vault."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support import disk, eps, real_pipelines
from support.daemon import Daemon

from sealcar import publish
from sealcar.ort import compile as compile_variant
from sealcar.ort import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sealcar.client import Client
    from sealcar.ort.runtime import Session

CPU = ("CPUExecutionProvider",)
NUDENET = real_pipelines.folder_of("nudenet") / "320n.onnx"
SILERO = real_pipelines.folder_of("silero_vad") / "data" / "silero_vad_16k_sequence.onnx"
LINE = "unambiguously as either object or background. Here,"


@dataclass(frozen=True)
class Vault:
    """A daemon with three packages, and a watch over the disk from then on.

    Attributes:
        client: an application's, whose current directory is empty.
        plaintexts: all that was imported, and what is made of it.
        watch: of what is written.
        public: what of it manifests show to everybody.
    """

    client: Client
    plaintexts: list[bytes]
    watch: disk.Watch
    public: list[str] = field(default_factory=list)

    def load(self, package: str, component: str = "main") -> Session:
        options = eps.quiet_options()
        return load(
            self.client,
            package,
            component=component,
            variant="onnx",
            session_options=options,
            providers=CPU,
        )

    def dictionary(self) -> list[str]:
        """Return the characters that rapidocr's own executor is told of."""
        scope = self.client.scope("rapidocr", "rec", "onnx")
        told = scope.executor_info["rapidocr"]
        assert isinstance(told, dict)
        return scope.read(scope.resolve(told["dictionary"])).decode().splitlines()


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vault]:
    """Publish the packages; then nothing plain may be written any more."""
    root = tmp_path_factory.mktemp("real")
    ocr = real_pipelines.ocr_package(root / "ocr", root / "words")
    work = root / "work"
    work.mkdir()
    before = os.getcwd()  # noqa: PTH109  (to go back)
    with Daemon(root) as daemon, daemon.connect() as client:
        for source, name in ((ocr, "rapidocr"), (NUDENET, "nudenet"), (SILERO, "silero-vad")):
            with publish.plan(source, name=name) as plan:
                client.catalogue.import_(plan)
        files = [*ocr.rglob("*.onnx"), *ocr.rglob(real_pipelines.DICTIONARY), NUDENET, SILERO]
        assert len(files) == 6
        plaintexts = [path.read_bytes() for path in files]
        os.chdir(work)
        try:
            yield Vault(client, plaintexts, disk.Watch(allowed=daemon.folder, private=work))
        finally:
            os.chdir(before)


def test_rapidocr_reads_the_same_with_its_three_models_and_its_dictionary_from_the_vault(
    vault: Vault,
) -> None:
    (asset,) = vault.client.catalogue.get("rapidocr").assets
    assert [payload.name for payload in asset.payloads] == [real_pipelines.DICTIONARY]
    sessions = {name: vault.load("rapidocr", name) for name in real_pipelines.MODELS}
    pages = real_pipelines.two_pages()
    want = real_pipelines.plain_ocr()(pages)
    assert want.txts.count(LINE) == 2
    got = real_pipelines.ocr_of(sessions, vault.dictionary())(pages)
    assert got.txts == want.txts
    np.testing.assert_allclose(got.scores, want.scores, atol=1e-3)
    np.testing.assert_allclose(got.boxes, want.boxes, atol=1)


def test_nudenet_finds_the_same_in_a_photograph_with_its_model_from_the_vault(
    vault: Vault,
) -> None:
    photograph = real_pipelines.picture("astronaut.png")
    (want,) = real_pipelines.plain_detector().detect(photograph)
    assert want["class"] == "FACE_FEMALE"
    sealed = real_pipelines.SealedDetector(vault.load("nudenet"))
    assert sealed.detect(photograph) == [want]


@pytest.mark.parametrize("name", eps.NAMES)
def test_nudenet_finds_it_as_well_with_a_variant_that_was_compiled_into_the_vault(
    vault: Vault, name: str
) -> None:
    ep = eps.require(name)
    made = compile_variant(
        vault.client, "nudenet", source="onnx", variant=name, session_options=ep.options()
    )
    compiled = {item.name: item.kind for item in made.payloads}
    assert "blob" in compiled.values()
    vault.plaintexts.extend(made.read(item) for item in compiled)
    vault.public.append(made.compatibility)
    photograph = real_pipelines.picture("astronaut.png")
    (want,) = real_pipelines.plain_detector().detect(photograph)
    session = load(vault.client, "nudenet", variant=name, session_options=ep.options())
    (found,) = real_pipelines.SealedDetector(session).detect(photograph)
    assert found["class"] == want["class"]
    assert found["score"] == pytest.approx(want["score"], abs=0.05)
    np.testing.assert_allclose(found["box"], want["box"], atol=5)


def test_silero_vad_hears_the_same_words_with_its_model_from_the_vault(vault: Vault) -> None:
    front = real_pipelines.voice_activity()
    audio = real_pipelines.speech()
    want = front.get_speech_timestamps_sequence(audio, front.SileroVADSequence(str(SILERO)))
    assert len(want) == 3
    sealed = real_pipelines.vad_of(vault.load("silero-vad"))
    assert front.get_speech_timestamps_sequence(audio, sealed) == want


def test_of_the_packages_that_these_pipelines_used_nothing_is_on_the_disk_in_plain(
    vault: Vault,
) -> None:
    # one search for all is as quick as one for each
    everything = {"everything": b"".join(vault.plaintexts)}
    vault.watch.assert_nothing_plain(everything, public="\n".join(vault.public))
