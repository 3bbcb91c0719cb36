"""Which models have to be looked at before a generation appears, and where their names may lead.

Looking is done elsewhere: a hostile model is never parsed by whoever holds keys.
"""

from __future__ import annotations

import posixpath
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from sealcar.onnxscan.jobs import Folder
from sealcar_server.service.failing import during
from sealcar_server.service.references import CONTEXT_FILE, DATA_FOLDER, asset_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sealcar_server.sealing.reader import SealedReader
    from sealcar_server.sealing.scratch import Scratch
    from sealcar_server.sealing.strictjson import JsonValue
    from sealcar_server.sealing.values import RecordPayload

MODEL: Final = "model"


@dataclass(frozen=True)
class Staged:
    """A variant, or a shared asset, that is about to appear.

    Attributes:
        component, variant: of a variant; empty of an asset.
        asset: URI by which variants refer to it; empty of a variant.
        payloads: all of it.
        executor_info: of a variant.
        known: its models were looked at before; only what is new in another's way to them counts.
    """

    payloads: Sequence[RecordPayload]
    component: str = ""
    variant: str = ""
    asset: str = ""
    executor_info: Mapping[str, JsonValue] = field(default_factory=dict)
    known: bool = False

    @property
    def place(self) -> dict[str, str]:
        """Where it is, for an error."""
        return {"component": self.component, "variant": self.variant}

    def find(self, name: str) -> RecordPayload | None:
        """Return a payload of it, if there is one of that name."""
        return next((payload for payload in self.payloads if payload.name == name), None)


class Opening(Protocol):
    """Opens a payload that lies in staging, under the keys of its package."""

    def __call__(self, owner: Staged, payload: RecordPayload, scratch: Scratch, /) -> SealedReader:
        """Return a reader, which the caller closes."""


@dataclass(frozen=True)
class Suspect:
    """A model that has to be looked at.

    Attributes:
        owner: what it is a part of.
        payload: the model.
        data: where the names of its external data may lead.
        blobs: where the names of its blobs may lead.
    """

    owner: Staged
    payload: RecordPayload
    data: tuple[Folder, ...]
    blobs: tuple[Folder, ...]

    @property
    def question(self) -> tuple[object, ...]:
        """What is asked; equal questions have one answer, while the same things are staged."""
        places = (self.data, self.blobs)
        led = tuple(
            tuple((id(one.files), one.prefix) for one in each if one.files) for each in places
        )
        return (id(self.owner), self.payload.name, *led)

    @contextmanager
    def named(self) -> Iterator[None]:
        """Name the model in every error that passes."""
        with during("check", payload=self.payload.name, **self.owner.place):
            yield


class ModelChecker(Protocol):
    """Looks at the models of what is about to appear."""

    def check(self, staged: Sequence[Staged], opening: Opening, scratch: Scratch) -> None:
        """Return if all of them may be stored.

        Raises:
            InvalidPackageError: one refers to what isn't stored with it, or is no model; names
                tensor and rule.
            InternalError, ExhaustedError: they can't be looked at.
            DamagedError, StorageError: what was staged can't be read again.
        """


class Unchecked:
    """Looks at nothing."""

    def check(self, staged: Sequence[Staged], opening: Opening, scratch: Scratch) -> None:
        """Return."""


def suspects(staged: Sequence[Staged]) -> Iterator[Suspect]:
    """Yield every model, and whatever else a variant has ONNX Runtime load as one.

    One that many variants refer to is asked about once for all from where its names lead alike.
    """
    assets = {item.asset: item for item in staged if item.asset}
    files = {id(item): {p.name: (p.kind, p.size) for p in item.payloads} for item in staged}
    named: set[tuple[str, str]] = set()
    asked: set[tuple[object, ...]] = set()
    for item in staged:
        if item.asset or item.known:
            continue
        around = _Surroundings(item, assets, files)
        for suspect in around.suspects():
            if suspect.owner.asset:
                named.add((suspect.owner.asset, suspect.payload.name))
            if suspect.question not in asked:
                asked.add(suspect.question)
                yield suspect
    for item in assets.values():
        for payload in item.payloads:
            new = not item.known and (item.asset, payload.name) not in named
            if new and payload.kind == MODEL:
                yield _Surroundings(item, assets, files).suspect(item, payload)


class _Surroundings:
    """What the references of one variant's models can lead to."""

    def __init__(
        self,
        own: Staged,
        assets: Mapping[str, Staged],
        files: Mapping[int, Mapping[str, tuple[str, int]]],
    ) -> None:
        self._own, self._assets, self._files = own, assets, files
        ort = own.executor_info.get("ort")
        self._ort: Mapping[str, JsonValue] = ort if isinstance(ort, dict) else {}
        options = self._ort.get("session_options")
        self._options: Mapping[str, JsonValue] = options if isinstance(options, dict) else {}

    def suspects(self) -> Iterator[Suspect]:
        own = self._own
        found = {(id(own), p.name): (own, p) for p in own.payloads if p.kind == MODEL}
        named = self._led(self._ort.get("model_file"))
        payload = named[0].find(named[1]) if named else None
        if named and payload:
            # whatever its kind is said to be: it is loaded as a model
            found[id(named[0]), payload.name] = (named[0], payload)
        for owner, model in found.values():
            yield self.suspect(owner, model)

    def suspect(self, owner: Staged, payload: RecordPayload) -> Suspect:
        beside = (owner, posixpath.dirname(payload.name))
        data = (beside, self._led(self._options.get(DATA_FOLDER)))
        context = self._led(self._options.get(CONTEXT_FILE))
        # it may name a file, beside which the blobs are, or their folder
        above = context and (context[0], posixpath.dirname(context[1]))
        blobs = (beside, (self._own, ""), context, above)
        return Suspect(owner, payload, self._folders(*data), self._folders(*blobs))

    def _led(self, reference: JsonValue) -> tuple[Staged, str] | None:
        """Return what a reference leads to, if it stays inside."""
        if not isinstance(reference, str):
            return None
        uri, path = asset_in(reference)
        if not uri:
            return self._inside(self._own, reference)
        if uri in self._assets:
            return self._inside(self._assets[uri], path)
        return self._inside(self._own, f"{uri.replace(':', '-')}/{path}")

    @staticmethod
    def _inside(owner: Staged, path: str) -> tuple[Staged, str] | None:
        name = posixpath.normpath(path)
        if name.startswith("/") or name.split("/")[0] == "..":
            return None
        return owner, "" if name == "." else name

    def _folders(self, *places: tuple[Staged, str] | None) -> tuple[Folder, ...]:
        known = dict.fromkeys((id(place[0]), place[1]) for place in places if place)
        return tuple(Folder(self._files[owner], prefix) for owner, prefix in known)
