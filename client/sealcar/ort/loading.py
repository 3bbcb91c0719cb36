"""A variant becomes an ONNX Runtime session, without a byte of a sealed one on any disk."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args, overload

from sealcar import tracing
from sealcar.errors import InvalidRequestError, RuntimeSupportError
from sealcar.ort import (
    adapters,
    borrowing,
    configuration,
    fitting,
    models,
    options,
    packing,
    placing,
    probing,
    runtime,
    scopes,
    selecting,
    sessions,
)
from sealcar.ort import initializers as weights
from sealcar.ort.ahead import Held
from sealcar.ort.sources import SealedSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sealcar.client import Client
    from sealcar.ort.runtime import Session, SessionOptions
    from sealcar.ort.sessions import Provider
    from sealcar.ort.sources import Source
    from sealcar.remote import RemoteClient

Initializers: TypeAlias = Literal["private", "shared"]
# with it a provider may take a blob from a session that has read it before
_SHARED: Final = "ep.share_ep_contexts"
# with it a session uses a model's own bytes, if it is in ORT format
_DIRECTLY: Final = "session.use_ort_model_bytes_directly"


@overload
def load(
    source: Client | RemoteClient,
    package: str,
    *,
    component: str | None = None,
    variant: str | None = None,
    version: str = "",
    generation: int = 0,
    session_options: SessionOptions | None = None,
    providers: Sequence[Provider] | None = None,
    initializers: Initializers = "private",
    allow_plaintext_files: bool = False,
    allow_unsupported: bool = False,
) -> Session: ...


@overload
def load(
    source: str | os.PathLike[str],
    *,
    component: str | None = None,
    variant: str | None = None,
    session_options: SessionOptions | None = None,
    providers: Sequence[Provider] | None = None,
    initializers: Initializers = "private",
    allow_plaintext_files: bool = False,
    allow_unsupported: bool = False,
) -> Session: ...


def load(  # noqa: PLR0913  (all but two are keyword-only)
    source: Client | RemoteClient | str | os.PathLike[str],
    package: str | None = None,
    *,
    component: str | None = None,
    variant: str | None = None,
    version: str = "",
    generation: int = 0,
    session_options: SessionOptions | None = None,
    providers: Sequence[Provider] | None = None,
    initializers: Initializers = "private",
    allow_plaintext_files: bool = False,
    allow_unsupported: bool = False,
) -> Session:
    """Return an `onnxruntime.InferenceSession` of a variant.

    The order is: options are checked, the variant is chosen where none is named, and opened; if it
    is compiled, what it says of its compiler is compared with this machine; its model is read, and
    everything that the model refers to is found among the variant's payloads; only then does the
    runtime see it.

    Args:
        source: a connected client, which the session keeps alive; or the directory of a plain
            package, whose files are then read in the same order and under the same rules.
        package: store name; only with a client.
        component: may be left out where the package has one.
        variant: left out, the one is taken that ONNX Runtime would choose for this session, or else
            the only one that any provider can run: see `sealcar.ort.select`.
        version: store version; empty: the current one.
        generation: 0: the newest.
        session_options: the caller's; the package's are added where they are harmless, and weights
            are packed in parallel if neither says how. New ones for each model with external
            initializers, whose memory lives as long as they do, and which the runtime would take
            for those of any other model by their names: let them go after loading.
        providers: as InferenceSession takes them.
        initializers: where external weights of a variant in a store lie. "private", the default:
            in memory of this process. "shared": in memory that every process uses which loads them
            so, and that the daemon counts; for servers with many workers of one model. A session
            on the CPU alone uses them where they lie: private ones until it has packed a copy,
            whose original then goes; shared ones unpacked, which is slower for matrix
            multiplications (`session.disable_prepacking`, set by the caller to "0", keeps them
            packed, each process its own). It logs nothing then, unless `log_severity_level` was
            set. Any other session copies from there, and so does one of a model whose weights the
            runtime computes with while it loads them. A large model in ORT format, whose weights
            are inside, lies there whole for the CPU alone, and stays as long as its session
            (`session.use_ort_model_bytes_for_initializers`, set to "0": they are copied).
        allow_plaintext_files: go on although options could write plaintext into files.
        allow_unsupported: go on although a compiled variant's provider isn't in the session, says
            that it doesn't support it, or has an older SDK than it was compiled with: for a plugin
            that had another name then, and to see what it says itself.

    Raises:
        PlaintextRefusedError: an option of the caller could; nothing was decrypted.
        WrongStateError: the options were used for a model with external initializers before.
        InvalidPackageError: the model refers to what isn't in the variant.
        RuntimeSupportError: the runtime or the provider can't do it; the message says what can.
        SealcarError: a payload can't be read, with phase, scope and name.
        Exception: the runtime's own, with the text of what failed in a callback.
    """
    if initializers not in get_args(Initializers):
        raise InvalidRequestError(f"initializers are {' or '.join(get_args(Initializers))}")
    own = session_options if session_options is not None else runtime.onnxruntime().SessionOptions()
    borrowing.check_new(own)
    entries = configuration.entries_of(own)
    options.check_caller(entries, _settings(providers), allow_plaintext_files=allow_plaintext_files)
    with tracing.span("load", package=package or "", component=component or "") as traced:
        if isinstance(source, str | os.PathLike):
            if package is not None or version or generation:
                raise InvalidRequestError(
                    "a package on the disk has no store name, version or generation; leave them "
                    "out, or load from a client"
                )
            found: Source = _in_directory(source, component, variant, own, providers)
        elif package is None:
            raise InvalidRequestError("name the package that is to be loaded from the store")
        else:
            if variant is None:
                chosen = selecting.select(
                    *(source, package, component, own),
                    version=version,
                    generation=generation,
                    providers=providers,
                ).scope
                component, variant = chosen.component, chosen.variant
                version, generation = chosen.version, chosen.generation
            scope = source.scope(
                package, component, variant, version=version, generation=generation
            )
            traced.tell(**tracing.of_scope(scope.name))
            found = SealedSource(scope, shared=initializers == "shared")
        if not allow_unsupported:
            fitting.check(found, own, providers)
        return _load(found, own, providers, entries, shared=initializers == "shared")


def _in_directory(
    path: str | os.PathLike[str],
    component: str | None,
    variant: str | None,
    own: SessionOptions,
    providers: Sequence[Provider] | None,
) -> Source:
    from sealcar.ort import plain  # noqa: PLC0415  (who loads from a store has no use for it)

    package = plain.open_package(path)
    if variant is None:
        component, variant = selecting.in_package(package, component, own, providers)
    return plain.DirectoryScope(package, *plain.find_variant(package, component, variant))


def _load(
    source: Source,
    own: SessionOptions,
    providers: Sequence[Provider] | None,
    entries: Mapping[str, str],
    *,
    shared: bool,
) -> Session:
    known = bool(scopes.blobs_of(source))
    if known:
        probing.check_read(own, source.ep)
    configuration.apply(own, _of_package(source), entries)
    packing.prefer_parallel(own)
    if entries.get(_DIRECTLY) == "1":
        # the bindings pass a copy of the bytes on, which they free before the session is made
        own.add_session_config_entry(_DIRECTLY, "0")
    with ExitStack() as held:
        with _expecting(source):
            mapped = partial(placing.wanted, own, providers, entries)
            model = held.enter_context(models.read(source, mapped=mapped))
            # what the runtime is asked meanwhile takes no time of its own
            borrows = bool(model.files and not model.blobs) and borrowing.possible(
                own, providers, entries, model.data, shared=shared
            )
            files = weights.fetch(source, model.files)
        repeated = model.repeated if isinstance(source, SealedSource) else ()
        reader = scopes.BlobReader(source, model.blobs, partial(Held, source.view, repeated))
        registration = None
        if known or model.blobs:
            if not known:
                probing.check_read(own, source.ep)
            registration = adapters.registrar().set_read(own, reader)
        given = partial(sessions.make, own=own, providers=providers, registration=registration)
        make = partial(given, model.data)
        copying = partial(_copying, source, own, files, make)
        with tracing.span("session", ep=source.ep), _expecting(reader):
            if model.blobs:
                sessions.make_way(own)
            if model.place is not None:
                session = placing.session(own, model.place, given, shared=shared)
            elif borrows:
                if own.optimized_model_filepath:
                    _arrive(source)  # weights that are written into a file go to a system call
                ways = (make, copying)
                session = borrowing.session(own, model.weights, files, ways, shared=shared)
                _arrive(source)
            else:
                session = copying()
    if model.blobs and not reader.served and entries.get(_SHARED) != "1":
        raise RuntimeSupportError(
            "the execution provider made a session without asking for the variant's blobs, so they "
            "came from elsewhere; compile the variant with embed=True"
        )
    return session


@contextmanager
def _expecting(whose: Source | scopes.BlobReader) -> Iterator[None]:
    """Have payloads on their way before they are asked for."""
    if not isinstance(whose, SealedSource | scopes.BlobReader):
        yield  # files are where they are
        return
    whose.expect()
    try:
        yield
    finally:
        whose.settle()


def _arrive(source: Source) -> None:
    """Go on when all weights are there, for a provider and for system calls to read."""
    if isinstance(source, SealedSource):
        source.arrive()


def _copying(
    source: Source, own: SessionOptions, files: weights.Files, make: Callable[[], Session]
) -> Session:
    """Make a session that copies what it needs of files that lie in memory."""
    _arrive(source)
    weights.lend(own, files)
    return make()


def _settings(
    providers: Sequence[Provider] | None,
) -> Iterable[tuple[str, Mapping[str, str]]]:
    """Return the providers that have options, with them."""
    given = [each for each in providers or () if not isinstance(each, str)]
    return [(name, {str(key): str(value) for key, value in own.items()}) for name, own in given]


def _of_package(source: Source) -> options.PackageOptions:
    session = scopes.options_in(source, scopes.SESSION_OPTIONS)
    resolved = (scopes.WEIGHTS_FOLDER, scopes.CONTEXT_FILE)
    return options.of_package(
        source.ep,
        {key: value for key, value in session.items() if key not in resolved},
        scopes.options_in(source, scopes.PROVIDER_OPTIONS),
    )
