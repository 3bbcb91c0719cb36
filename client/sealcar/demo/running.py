"""The demonstration from beginning to end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sealcar import publish
from sealcar.demo import measuring, samples
from sealcar.demo.application import COMPONENT, PACKAGE, SOURCE
from sealcar.demo.children import Child
from sealcar.demo.missing import model_of_magika
from sealcar.demo.outcome import Outcome, Prediction
from sealcar.demo.plugins import PLUGINS
from sealcar.demo.searching import Search
from sealcar.demo.stage import daemon

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sealcar import Scope
    from sealcar.client import Client
    from sealcar.demo.narrator import Narrator


def run(ep: str, directory: Path, narrator: Narrator) -> Outcome:
    """Run everything in a directory, and leave no process behind whatever happens.

    Raises:
        SealcarError: what didn't work.
    """
    narrator.say(f"A private place for everything: {directory}")
    files = [str(path) for path in samples.collect(directory / "files")]
    with daemon(directory / "daemon", narrator) as (client, environment):
        demo = _Demo(ep, client, environment, narrator)
        demo.import_()
        demo.compile()
        facts, sealed = demo.detect(files)
        plain = demo.compare(files)
        store = directory / "daemon" / "store"
        hits, searched = demo.search(directory / "daemon")
        narrator.say(f"Moving blobs of {measuring.SIZE >> 20} MiB in and out, to see how fast")
        speed = measuring.measure(client, demo.compiled)
    return Outcome(
        predictions=tuple(_prediction(*pair) for pair in zip(sealed, plain, strict=True)),
        plaintext_hits=hits,
        searched_bytes=searched,
        ort_version=facts["ort_version"],
        callback_api=facts["callback_api"],
        ep=PLUGINS[ep].provider,
        blob_bytes=demo.blob_bytes,
        speed=speed,
        store=str(store),
    )


class _Demo:
    """The steps that need the daemon."""

    def __init__(
        self, ep: str, client: Client, environment: dict[str, str], narrator: Narrator
    ) -> None:
        self.blob_bytes = 0
        self._ep = ep
        self._plugin = PLUGINS[ep]
        self._client = client
        self._environment = environment
        self._narrator = narrator

    def import_(self) -> None:
        model = model_of_magika()
        self._narrator.say(f"Importing and sealing Magika's model, {model.stat().st_size} bytes")
        with publish.plan(
            model, name=PACKAGE, version="1", component=COMPONENT, variant=SOURCE
        ) as plan:
            self._client.catalogue.import_(plan)

    def compile(self) -> None:
        title = self._plugin.title
        if self._plugin.accelerator:
            self._narrator.say("An application makes it fit for half precision, sealed to sealed")
        self._narrator.say(f"An application compiles it for {title}, through the write callback")
        with self._application("compile", self._ep) as application:
            made = next(iter(application.answers()))
            pid = application.pid
        self.blob_bytes = sum(made["blobs"].values())
        names = ", ".join(made["blobs"])
        self._narrator.say(
            f"  process {pid}: blob {names}, {self.blob_bytes} bytes, in {made['seconds']:.1f} s"
        )

    def detect(self, files: list[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        self._narrator.say("Another application loads the result through the read callback")
        with self._application("detect", self._ep, *files) as application:
            answers = application.answers()
            facts = next(answers)
            self._narrator.say(
                f"  process {application.pid}: loaded in {facts['seconds']:.2f} s;"
                f" Magika looks at {len(files)} files"
            )
            return facts, self._collect(answers, len(files))

    def compare(self, files: list[str]) -> list[dict[str, Any]]:
        self._narrator.say("The same with Magika's plain model, to compare")
        with self._application("plain", *files) as application:
            return list(application.answers())

    def search(self, place: Path) -> tuple[int, int]:
        self._narrator.say("Searching all that the daemon keeps for 64 bytes of any plaintext")
        variants = self._client.catalogue.get(PACKAGE).variants
        scopes = [self._client.scope(PACKAGE, each.component, each.variant) for each in variants]
        plaintexts = [
            model_of_magika().read_bytes(),
            *(scope.read(each.name) for scope in scopes for each in scope.payloads),
        ]
        # the manifest tells it to whoever chooses a variant; providers leave it in the model too
        public = [each.compatibility.encode() for each in variants]
        return Search(plaintexts, public).hits(place)

    @property
    def compiled(self) -> Scope:
        """What the first application made."""
        return self._client.scope(PACKAGE, COMPONENT, self._plugin.variant)

    def _application(self, *arguments: str) -> Child:
        return Child("application", *arguments, environment=self._environment)

    def _collect(self, answers: Iterator[dict[str, Any]], total: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for answer in answers:
            found.append(answer)
            self._narrator.step(f"{answer['file']}: {answer['label']}", len(found), total)
        return found


def _prediction(sealed: dict[str, Any], plain: dict[str, Any]) -> Prediction:
    return Prediction(
        file=sealed["file"],
        label=sealed["label"],
        model_label=sealed["model_label"],
        score=sealed["score"],
        plain_label=plain["label"],
        plain_model_label=plain["model_label"],
        plain_score=plain["score"],
    )
