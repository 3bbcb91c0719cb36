"""Every error that sealcar raises, by who has to act.

`SealcarError` is the base; its five branches say who: `RequestError` (the caller), `DamagedError`
(whoever owns the package: it is damaged or forged), `KeyRefusedError` (the key's owner),
`KeyUnavailableError` (wait, or repair the key service), `ResourceError` (this machine or daemon).
A leaf names the finding. The wire's `ErrorReason` maps one to one onto these classes (see
`sealcar.details`), so a client raises the very error that the daemon found.

No error holds a key or a plaintext: messages carry names, sizes and reasons only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self


@dataclass(frozen=True)
class Place:
    """What an error is about, as far as it is known.

    Attributes:
        phase: what was being done: "open", "authenticate", "transfer", "publish", ….
        package, version, component, variant: the scope; empty where unknown.
        generation: of the package; 0 where unknown.
        payload: its name; empty if the error isn't about one.
        offset, length: plaintext byte range, where the failure has one.
    """

    phase: str = ""
    package: str = ""
    version: str = ""
    component: str = ""
    variant: str = ""
    generation: int = 0
    payload: str = ""
    offset: int | None = None
    length: int | None = None

    def __str__(self) -> str:
        """Render as `phase: package@version/component/variant/payload [offset, +length]`."""
        package = self.package + (f"@{self.version}" if self.version else "")
        names = [package, self.component, self.variant, self.payload]
        address = "/".join(name for name in names if name)
        span = "" if self.offset is None else f" [{self.offset}, +{self.length or 0}]"
        return ": ".join(part for part in (self.phase, address + span) if part.strip())


class SealcarError(Exception):
    """Base of all errors of sealcar.

    Args:
        message: one sentence for a person, the remedy included where there is one.
        place: what it is about.
        retry_after: seconds after which a retry may succeed; None: a retry won't help.
        request_id: by which the daemon's log has more; empty if the daemon didn't find it.
    """

    exit_code: ClassVar[int] = 8

    def __init__(
        self,
        message: str,
        *,
        place: Place | None = None,
        retry_after: float | None = None,
        request_id: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.place = place or Place()
        self.retry_after = retry_after
        self.request_id = request_id

    def __str__(self) -> str:
        """Place, message and request, in one line."""
        where = str(self.place)
        request = f" (request {self.request_id})" if self.request_id else ""
        return f"{where}: {self.message}{request}" if where else f"{self.message}{request}"

    def at(self, **known: str | int | None) -> Self:
        """Fill in what is still unknown of the place, and return the same error for `raise`.

        What the raiser knew stands: an outer layer only adds.
        """
        missing = {name: value for name, value in known.items() if not getattr(self.place, name)}
        self.place = replace(self.place, **missing)  # type: ignore[arg-type]  # names are Place's own
        return self


class RequestError(SealcarError):
    """The caller's request can't be served as it is."""

    exit_code = 1


class InvalidRequestError(RequestError):
    """A field is missing, malformed or over its limit."""

    exit_code = 2


class InvalidNameError(RequestError):
    """A name breaks a rule of the format; the message names the rule."""

    exit_code = 2


class NotFoundError(RequestError):
    """No such thing, or none that the caller may know of."""


class DeniedError(RequestError):
    """The caller lacks the right."""

    exit_code = 5


class AlreadyExistsError(RequestError):
    """The name is taken."""


class WrongStateError(RequestError):
    """Not allowed in this state."""


class ConflictError(RequestError):
    """Another writer published first."""


class IncompatibleError(RequestError):
    """The two sides speak no common protocol version."""


class InvalidPackageError(RequestError):
    """What is to be imported breaks a rule of packages or of ONNX files."""


class DamagedError(SealcarError):
    """A package is damaged or forged."""

    exit_code = 6


class NotAuthenticError(DamagedError):
    """Bytes that the holder of the key didn't write."""


class TruncatedError(DamagedError):
    """Shorter, longer or missing against its record."""


class RolledBackError(DamagedError):
    """Older than what has been seen, or than the minimum given."""


class UnknownFormatError(DamagedError):
    """Written by a newer sealcar, or not by sealcar at all."""


class KeyRefusedError(SealcarError):
    """The key provider says no, or the configuration has no such key."""

    exit_code = 7


class KeyUnavailableError(SealcarError):
    """The key provider can't be reached."""

    exit_code = 7


class LockedError(KeyUnavailableError):
    """An operator locked the daemon: it has no key until it is unlocked."""


class ResourceError(SealcarError):
    """A resource of this machine or daemon is lacking."""


class ExhaustedError(ResourceError):
    """Disk, memory or a configured budget is full."""


class UnavailableError(ResourceError):
    """The daemon can't be reached, isn't ready, or is stopping."""

    exit_code = 4


class TimedOutError(ResourceError):
    """The deadline passed."""


class StorageError(ResourceError):
    """Reading or writing the store failed."""


class InternalError(ResourceError):
    """A defect; the daemon's log has more."""


class ConfigurationError(SealcarError):
    """A setting is wrong; the message has its place and the remedy."""

    exit_code = 2


class RuntimeSupportError(SealcarError):
    """The installed ONNX Runtime or execution provider can't do it; the message says what can."""

    exit_code = 3


class PlaintextRefusedError(RequestError):
    """What was asked for would leave plaintext in a file."""
