"""A sealed variant becomes an ONNX Runtime session, without a byte of it on any disk."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from sealcar import onnxscan
from sealcar.errors import InvalidPackageError, RuntimeSupportError
from sealcar.names import shown
from sealcar.ort import adapters, configuration, initializers, options, probing, runtime, scopes
from sealcar.ort.adapters import rejections

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TypeAlias

    from sealcar.client import Client
    from sealcar.onnxscan import ModelScan
    from sealcar.ort.callbacks import Registration
    from sealcar.ort.runtime import Session, SessionOptions
    from sealcar.transfer.reading import Scope

    Provider: TypeAlias = str | tuple[str, Mapping[str, Any]]

# with it a provider may take a blob from a session that has read it before
_SHARED: Final = "ep.share_ep_contexts"


def load(  # noqa: PLR0913  (all but two are keyword-only)
    client: Client,
    package: str,
    *,
    component: str | None = None,
    variant: str | None = None,
    version: str = "",
    generation: int = 0,
    session_options: SessionOptions | None = None,
    providers: Sequence[Provider] | None = None,
    allow_plaintext_files: bool = False,
) -> Session:
    """Return an `onnxruntime.InferenceSession` of a variant.

    The order is: options are checked, the variant is opened, its model is read and everything that
    the model refers to is found among the variant's payloads; only then does the runtime see it.

    Args:
        client: a connected client. It is kept alive by the session.
        package: store name.
        component: may be left out where the package has one.
        variant: may be left out where the component has one.
        version: store version; empty: the current one.
        generation: 0: the newest.
        session_options: the caller's; the package's are added where they are harmless. New ones for
            each model with external initializers, whose memory lives as long as they do: let them
            go after loading.
        providers: as InferenceSession takes them.
        allow_plaintext_files: go on although options could write plaintext into files.

    Raises:
        PlaintextRefusedError: an option of the caller could; nothing was decrypted.
        InvalidPackageError: the model refers to what isn't in the variant.
        RuntimeSupportError: the runtime or the provider can't do it; the message says what can.
        SealcarError: a payload can't be read, with phase, scope and name.
        Exception: the runtime's own, with the text of what failed in a callback.
    """
    own = session_options if session_options is not None else runtime.onnxruntime().SessionOptions()
    entries = configuration.entries_of(own)
    options.check_caller(entries, _settings(providers), allow_plaintext_files=allow_plaintext_files)
    scope = client.scope(package, component, variant, version=version, generation=generation)
    return _load(scope, own, providers, entries)


def _load(
    scope: Scope,
    own: SessionOptions,
    providers: Sequence[Provider] | None,
    entries: Mapping[str, str],
) -> Session:
    name = scopes.model_of(scope)
    reader = scopes.BlobReader(scope)
    registration = None
    if scopes.blobs_of(scope):
        probing.check_read(own, scope.ep)
        registration = adapters.registrar().set_read(own, reader)
    configuration.apply(own, _of_package(scope), entries)
    model = scope.read(name)
    found = onnxscan.scan(model)
    _check_blobs(found, scope, name)
    initializers.lend(own, initializers.fetch(scope, initializers.resolve(found, scope, name)))
    session = _session(model, own, providers, registration)
    if _asks_for_blobs(found) and not reader.served and entries.get(_SHARED) != "1":
        raise RuntimeSupportError(
            "the execution provider made a session without asking for the variant's blobs, so they "
            "came from elsewhere; compile the variant with embed=True"
        )
    return session


def _settings(
    providers: Sequence[Provider] | None,
) -> Iterable[tuple[str, Mapping[str, str]]]:
    """Return the providers that have options, with them."""
    given = [each for each in providers or () if not isinstance(each, str)]
    return [(name, {str(key): str(value) for key, value in own.items()}) for name, own in given]


def _of_package(scope: Scope) -> options.PackageOptions:
    asked = (scopes.options_in(scope, f"{kind}_options") for kind in ("session", "provider"))
    return options.of_package(scope.ep, *asked)


def _asks_for_blobs(found: ModelScan) -> bool:
    return any(node.cache_context is not None for node in found.ep_contexts)


def _check_blobs(found: ModelScan, scope: Scope, model: str) -> None:
    """Check that whatever EPContext nodes name is a blob here: a provider would try the disk."""
    blobs = {name.encode() for name in scopes.blobs_of(scope)}
    if scopes.weightless(found):
        refused = InvalidPackageError("the model is weightless: it reads its weights from a file")
        raise scope.name.placed(refused, "open", model)
    for node in found.ep_contexts:
        if node.cache_context is not None and node.cache_context not in blobs:
            refused = InvalidPackageError(
                f"EPContext node {shown(node.name)} names blob {shown(node.cache_context)}, which "
                "isn't in the variant; the execution provider would look for it on the disk"
            )
            raise scope.name.placed(refused, "open", model)


def _session(
    model: bytes,
    own: SessionOptions,
    providers: Sequence[Provider] | None,
    registration: Registration | None,
) -> Session:
    try:
        return _sealed_session()(model, own, providers, registration)
    except Exception as error:
        if registration is not None and registration.failure is not None:
            raise error from registration.failure
        found = rejections.explain(error)
        if found is not None:
            raise found from error
        raise


@cache
def _sealed_session() -> type[Any]:
    base: type[Any] = runtime.onnxruntime().InferenceSession

    class SealedSession(base):  # type: ignore[misc]  # the runtime is untyped
        """An InferenceSession that keeps neither its model nor its options."""

        def __init__(
            self,
            model: bytes,
            own: SessionOptions,
            providers: Sequence[Provider] | None,
            registration: Registration | None,
        ) -> None:
            super().__init__(model, own, providers=providers, enable_fallback=0)
            # the runtime's class keeps both for set_providers alone; the options hold the memory
            # of external initializers, which the session has copied
            self._model_bytes = b""
            self._sess_options = self._sess_options_initial = None
            # a provider may ask for a blob again as long as the session lives
            self._registration = registration

        def set_providers(self, *_arguments: object, **_named: object) -> None:
            """Refuse: that would make the session anew from the model.

            Raises:
                RuntimeSupportError: always.
            """
            raise RuntimeSupportError(
                "providers of a sealed session can't be changed; load it again with other ones"
            )

    return SealedSession
