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
from typing import TYPE_CHECKING, Final

from sealcar import onnxscan, tracing
from sealcar.closing import Closing
from sealcar.errors import InvalidRequestError, RuntimeSupportError, SealcarError
from sealcar.names import shown
from sealcar.ort import adapters, configuration, initializers, options, probing, scopes
from sealcar.ort.callbacks import Compilation
from sealcar.ort.compiled import Origin, check_complete, origin_of
from sealcar.ort.configured import configured, kind_of
from sealcar.ort.sources import SealedSource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sealcar.client import Client
    from sealcar.onnxscan import ModelScan
    from sealcar.ort.runtime import SessionOptions
    from sealcar.transfer.reading import Scope
    from sealcar.transfer.transactions import Transaction

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
    with (
        tracing.span("compile", package=package, component=component or "", variant=variant),
        _begun(client, scope, variant) as transaction,
    ):
        origin = _into(transaction, scope, session_options, embed=embed, optimization=optimization)
        return transaction.commit(
            ep=ep or origin.ep,
            device=device or _device(session_options, ep or origin.ep),
            compatibility=origin.compatibility,
            executor_info={scopes.NAMESPACE: {"model_file": origin.model}, **origin.info},
        )


def _begun(client: Client, scope: Scope, variant: str) -> Transaction:
    """Begin to write a variant beside the one that is compiled."""
    where = scope.name
    return client.begin(
        *(where.package, where.component, variant),
        version=where.version,
        generation=where.generation,
    )


def _into(
    transaction: Transaction,
    scope: Scope,
    session_options: SessionOptions,
    *,
    embed: bool,
    optimization: str,
) -> Origin:
    """Compile a variant, and write all that comes of it into a transaction."""
    source = SealedSource(scope)
    name = scopes.model_of(source)
    model = scope.read(name)
    found = onnxscan.scan(model)
    if found.ep_contexts:
        refused = InvalidRequestError("the source is compiled already")
        raise scope.name.placed(refused, "open", name)
    files = initializers.fetch(source, initializers.resolve(found, source, name))
    with _Output(transaction, name) as output:
        job = output.compilation(model, files, embed=embed, optimization=optimization)
        adapters.registrar().compile(session_options, job)
        return origin_of(output.finish(), output.model_name)


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


class _Output(Closing):
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

    def close(self) -> None:
        """Close what wasn't finished."""
        self._weights.close()


def _check_options(session_options: SessionOptions, *, allow_plaintext_files: bool) -> None:
    entries = configuration.entries_of(session_options)
    for key, value in entries.items():
        if key.startswith(_WEIGHTLESS) and value != "0":
            raise RuntimeSupportError(
                f"weightless compilation ({key}) isn't supported: the weights would stay in the "
                "plain model; leave the option out"
            )
    options.check_caller(entries, allow_plaintext_files=allow_plaintext_files)


def _device(session_options: SessionOptions, ep: str) -> str:
    """Return the kind of device that the provider runs on here, if it is one only."""
    try:
        kinds = {kind_of(each) for each in configured(session_options).devices_of(ep)}
    except RuntimeSupportError:  # then it isn't known, which is no reason to lose what was compiled
        return ""
    return kinds.pop() if len(kinds) == 1 else ""
