"""Compiling a sealed variant for a provider: a new sealed variant, with nothing plain on the way.

The source is read into memory; blobs, remaining initializers and the compiled model are sealed as
the runtime hands them over. They are published together, or not at all: only if the compiled model
names exactly the blobs that were written.
"""

from __future__ import annotations

import ctypes
import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from sealcar import onnxscan
from sealcar.errors import InvalidRequestError, RuntimeSupportError, SealcarError
from sealcar.names import shown
from sealcar.ort import adapters, configuration, initializers, options, probing, runtime, scopes
from sealcar.ort.callbacks import Compilation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from sealcar.client import Client
    from sealcar.onnxscan import ModelScan
    from sealcar.ort.runtime import SessionOptions
    from sealcar.transfer.reading import Scope
    from sealcar.transfer.transactions import Transaction

_COMPATIBILITY: Final = "ep_compatibility_info."
_WEIGHTLESS: Final = "ep.enable_weightless"
_STEM: Final = 60


def compile(  # noqa: A001, PLR0913  (what the runtime calls it; all but two are keyword-only)
    client: Client,
    package: str,
    *,
    source: str,
    variant: str,
    component: str | None = None,
    version: str = "",
    session_options: SessionOptions,
    embed: bool = False,
    optimization: str = "off",
    ep: str = "",
    device: str = "",
    allow_plaintext_files: bool = False,
) -> Scope:
    """Compile a variant and publish the result as another one; return where it is.

    Args:
        client: a connected client, which may read the package and write to it.
        package: store name.
        source: variant that is compiled.
        variant: name of the new one; replaced if the component has it.
        component: may be left out where the package has one with such a source.
        version: store version; empty: the current one.
        session_options: with the provider to compile for. They are left as they are.
        embed: put the blobs into the model: for providers that don't honour callbacks.
        optimization: what the runtime does to the graph first: "off", "basic", "extended", "all".
            A provider that needs fixed shapes may need "basic", which folds constants.
        ep: provider that the new variant is for; default: the one that made its blobs.
        device: kind of device; default: the one that the provider has here, if it is one only.
        allow_plaintext_files: go on although options could write plaintext into files.

    Raises:
        PlaintextRefusedError: an option could; nothing was decrypted.
        RuntimeSupportError: the runtime or the provider can't do it, or no node was compiled, or
            the compiled model and the blobs don't fit together; nothing was published.
        InvalidRequestError: the source is compiled already, or would be replaced by itself.
        SealcarError: a payload can't be read or written, with phase, scope and name.
        Exception: the runtime's own, with the text of what failed in a callback.
    """
    _check_options(session_options, allow_plaintext_files=allow_plaintext_files)
    if source == variant:
        raise InvalidRequestError(f"{shown(variant)} can't be compiled into itself")
    if not embed:
        probing.check_write(session_options)
    scope = client.scope(package, component, source, version=version)
    where = scope.name
    with client.begin(
        *(where.package, where.component, variant),
        version=where.version,
        generation=where.generation,
    ) as transaction:
        origin = _into(transaction, scope, session_options, embed=embed, optimization=optimization)
        return transaction.commit(
            ep=ep or origin.ep,
            device=device or _device(ep or origin.ep),
            compatibility=origin.compatibility,
            executor_info={scopes.NAMESPACE: {"model_file": origin.model}},
        )


@dataclass(frozen=True)
class _Origin:
    """The compiled model's name, who compiled it, and what he left to recognise his machine by."""

    model: str
    ep: str
    compatibility: str


def _into(
    transaction: Transaction,
    scope: Scope,
    session_options: SessionOptions,
    *,
    embed: bool,
    optimization: str,
) -> _Origin:
    """Compile a variant, and write all that comes of it into a transaction."""
    name = scopes.model_of(scope)
    model = scope.read(name)
    found = onnxscan.scan(model)
    if found.ep_contexts:
        refused = InvalidRequestError("the source is compiled already")
        raise scope.name.placed(refused, "open", name)
    files = initializers.fetch(scope, initializers.resolve(found, scope, name))
    with _Output(transaction, name) as output:
        job = output.compilation(model, files, embed=embed, optimization=optimization)
        adapters.registrar().compile(session_options, job)
        return _Origin(output.model_name, *_maker(output.finish()))


@dataclass(frozen=True)
class _Names:
    """What a compiled model, its weights and its blobs are called."""

    stem: str

    @classmethod
    def of(cls, source: str) -> _Names:
        stem = posixpath.basename(source).removesuffix(".onnx")
        return cls(re.sub(r"[^A-Za-z0-9_-]", "_", stem)[:_STEM] or "model")

    @property
    def model(self) -> str:
        return f"{self.stem}.onnx"

    @property
    def weights(self) -> str:
        return f"{self.stem}.weights"


class _Output:
    """Everything that a compilation makes, on its way into one transaction."""

    def __init__(self, transaction: Transaction, source: str) -> None:
        names = _Names.of(source)
        self._transaction = transaction
        self._stem = names.stem
        self._blobs = scopes.BlobWriter(transaction)
        self._weights = initializers.Outlet(transaction, names.weights)
        self._model = bytearray()
        self.model_name = names.model

    def compilation(
        self, model: bytes, sources: Mapping[str, memoryview], *, embed: bool, optimization: str
    ) -> Compilation:
        return Compilation(
            model=model,
            sink=self._take,
            write=None if embed else self._blobs,
            location=self._weights,
            sources=sources,
            embed=embed,
            stem=self._stem,
            optimization=optimization,
        )

    def finish(self) -> ModelScan:
        """Check that all belongs together, and write the model; return what is in it."""
        found = onnxscan.scan(self._model)
        try:
            weights = self._weights.name if self._weights.used else ""
            check_complete(found, self._blobs.names, weights)
        except SealcarError as error:
            raise self._transaction.scope.placed(error, "compile", self.model_name) from None
        self._weights.finish()
        self._transaction.write(self.model_name, self._model, "model")
        return found

    def _take(self, address: int, size: int, /) -> None:
        self._model += ctypes.string_at(address, size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._weights.close()


def check_complete(found: ModelScan, written: AbstractSet[str], weights: str) -> None:
    """Check that a compiled model names exactly what was written.

    Args:
        found: what the compiled model refers to.
        written: names of the blobs that were written.
        weights: name of the external file that was written; empty: none.

    Raises:
        RuntimeSupportError: no node was compiled, something is missing, or something is left over.
    """
    if not found.ep_contexts:
        raise RuntimeSupportError(
            "no node was compiled: is the execution provider in the session options, and does it "
            "support the model?"
        )
    if scopes.weightless(found):
        raise RuntimeSupportError(
            "weightless compilation isn't supported: the compiled model reads its weights from the "
            "plain one"
        )
    named = {node.cache_context for node in found.ep_contexts if node.cache_context is not None}
    _check_equal("blob", {name.decode(errors="backslashreplace") for name in named}, written)
    files = {tensor.external.location for tensor in found.external if tensor.external}
    _check_equal("file", files, {weights} if weights else set())


def _check_equal(what: str, named: AbstractSet[str], written: AbstractSet[str]) -> None:
    for left, text in ((named - written, "names"), (written - named, "doesn't name")):
        if left:
            names = ", ".join(shown(name) for name in sorted(left))
            state = "wasn't" if text == "names" else "was"
            raise RuntimeSupportError(
                f"the compiled model {text} {what} {names}, which {state} written"
            )


def _check_options(session_options: SessionOptions, *, allow_plaintext_files: bool) -> None:
    entries = configuration.entries_of(session_options)
    for key, value in entries.items():
        if key.startswith(_WEIGHTLESS) and value != "0":
            raise RuntimeSupportError(
                f"weightless compilation ({key}) isn't supported: the weights would stay in the "
                "plain model; leave the option out"
            )
    options.check_caller(entries, allow_plaintext_files=allow_plaintext_files)


def _maker(found: ModelScan) -> tuple[str, str]:
    """Return the provider that made the blobs, and what it left to recognise its machine by."""
    for key, value in found.metadata.items():
        if key.startswith(_COMPATIBILITY):
            return key.removeprefix(_COMPATIBILITY), value
    return next((node.source for node in found.ep_contexts if node.source), ""), ""


def _device(ep: str) -> str:
    """Return the kind of device that a provider has here, if it has one kind only."""
    devices = runtime.onnxruntime().get_ep_devices()
    kinds = {each.device.type.name.lower() for each in devices if each.ep_name == ep}
    return kinds.pop() if len(kinds) == 1 else ""
