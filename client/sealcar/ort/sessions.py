"""The session that `load` returns: ONNX Runtime's own, without what must not outlive loading."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from sealcar.errors import RuntimeSupportError
from sealcar.ort import runtime
from sealcar.ort.adapters import rejections

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias

    from sealcar.ort.callbacks import Registration
    from sealcar.ort.runtime import Session, SessionOptions

    Provider: TypeAlias = str | tuple[str, Mapping[str, Any]]


@cache
def sealed_session() -> type[Any]:
    """Return the class of sessions; the runtime is imported for it."""
    base: type[Any] = runtime.onnxruntime().InferenceSession

    class SealedSession(base):  # type: ignore[misc]  # the runtime is untyped
        """An InferenceSession that keeps neither its model nor its options."""

        def __init__(
            self,
            model: str | bytes,
            own: SessionOptions,
            providers: Sequence[Provider] | None,
            registration: Registration | None,
        ) -> None:
            super().__init__(model, own, providers=providers, enable_fallback=0)
            # the runtime's class keeps both for set_providers alone; the options hold the memory
            # of external initializers, which the session has copied
            self._model_bytes, self._model_path = b"", None
            self._sess_options = self._sess_options_initial = None
            # a provider may ask for a blob again as long as the session lives
            self._registration = registration

        def keep(self, owner: object) -> None:
            """Keep alive what the session uses and doesn't own."""
            self._owner = owner

        def set_providers(self, *_arguments: object, **_named: object) -> None:
            """Refuse: that would make the session anew from the model.

            Raises:
                RuntimeSupportError: always.
            """
            raise RuntimeSupportError(
                "providers of a sealed session can't be changed; load it again with other ones"
            )

    return SealedSession


def make(
    model: str | bytes,
    own: SessionOptions,
    providers: Sequence[Provider] | None,
    registration: Registration | None,
) -> Session:
    """Return a session of a model, or of its path.

    Args:
        model: itself, or a path to it.
        own: options of the session.
        providers: as InferenceSession takes them.
        registration: of the read callback, if there is one.

    Raises:
        RuntimeSupportError: the provider can't do it.
        Exception: the runtime's own, with the text of what failed in a callback.
    """
    try:
        return sealed_session()(model, own, providers, registration)
    except Exception as error:  # the runtime's are many, and none is kept from the caller
        if registration is not None and registration.failure is not None:
            raise error from registration.failure
        found = rejections.explain(error)
        if found is not None:
            raise found from error
        raise


def make_way(own: SessionOptions) -> None:
    """Go to the core that the runtime keeps free of threads of its own; then on wherever one may.

    By default it pins a thread to every core but the first, where it expects who makes the session,
    and those spin for a while. Asking the daemon moves this thread about, and with one of them on
    its core it has half of that until the kernel looks into it, though the first one may be idle.

    Args:
        own: options of a session that has no work for those threads while it is made.
    """
    if own.intra_op_num_threads:
        return
    with suppress(OSError):  # a sandbox may forbid it
        allowed = os.sched_getaffinity(0)
        # of some only, the runtime may have others in mind; and cores that are added later to
        # those of a process have to be its threads' too, which they aren't once these were chosen
        if len(allowed) == 1 or len(allowed) != os.cpu_count():
            return
        try:
            os.sched_setaffinity(0, {min(allowed)})
        finally:
            os.sched_setaffinity(0, allowed)
