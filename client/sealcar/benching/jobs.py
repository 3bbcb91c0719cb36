"""What one process is told to load, and what it says afterwards: both travel as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

# what a load reaches, as it is reported; "payloads" may come after "ready": see `touching`
PARSED: Final = "main protobuf parsed"
PAYLOADS: Final = "external payloads available"
READY: Final = "session ready"
INFERENCE: Final = "first inference"
MOMENTS: Final = (PARSED, PAYLOADS, READY, INFERENCE)

# where files in memory are made, and how their folder's name begins
MEMORY: Final = "/dev/shm"  # noqa: S108  (files in memory are what is compared with)
PREFIX: Final = "sealcar-bench-"

PLAIN: Final = "sealcar.benching.loaders:plain"
TUNED: Final = "sealcar.benching.loaders:tuned"
SEALED: Final = "sealcar.benching.loaders:sealed"
TMPFS: Final = "sealcar.benching.loaders:tmpfs"


@dataclass(frozen=True)
class Job:
    """One load.

    Attributes:
        loader: MODULE:FUNCTION that makes the session.
        model: path of the plain model.
        files: paths of what lies beside it: external data, blobs.
        socket: directory with the daemon's sockets.
        address: package, component and variant in its store.
        beside: something is loaded beside the model, in the form that this loader loads.
        initializers: "private" or "shared".
        plugin: module of a plugin execution provider; empty: the CPU's own.
        plugin_options: of that provider.
        session_options, provider_options: that come with the package; a sealed load adds them by
            itself.
        threads: within an operator; 0: as many as the runtime takes by itself.
        dims: of the inputs, where the model gives names in place of numbers.
        feed: path of an .npz with the inputs; empty: they are made.
        extra: what loaders from elsewhere want to know.
    """

    loader: str
    model: str
    files: tuple[str, ...] = ()
    socket: str = ""
    address: tuple[str, str, str] = ("", "", "")
    beside: bool = False
    initializers: Literal["private", "shared"] = "private"
    plugin: str = ""
    plugin_options: Mapping[str, str] = field(default_factory=dict)
    session_options: Mapping[str, str] = field(default_factory=dict)
    provider_options: Mapping[str, str] = field(default_factory=dict)
    threads: int = 0
    dims: Mapping[str, int] = field(default_factory=dict)
    feed: str = ""
    extra: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """Return it as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return what `text` was made of."""
        found = cls(**json.loads(text))
        package, component, variant = found.address
        return replace(found, files=tuple(found.files), address=(package, component, variant))


@dataclass(frozen=True)
class Traffic:
    """Where a load's bytes went, as far as they were seen to go.

    Attributes:
        copied: brought into memory of this process's own, by a transfer or as a file is read.
        borrowed: of these and of what is mapped, tensors that the runtime uses where they lie.
        mapped: of files and of segments that others share.
    """

    copied: int = 0
    borrowed: int = 0
    mapped: int = 0


@dataclass(frozen=True)
class Told:
    """What a process says of its load.

    Attributes:
        begun: when, in seconds of the machine's monotonic clock.
        moments: seconds from then on; what it didn't see isn't there.
        unseen: why not.
        untouched: payloads that were only mapped when the session was ready, and touched then.
        traffic: of the bytes.
        answer: of the first inference, a number for each output.
        runtime: what decides the figures and only that process knows.
    """

    begun: float
    moments: Mapping[str, float]
    unseen: Mapping[str, str]
    untouched: int
    traffic: Traffic
    answer: tuple[float, ...]
    runtime: Mapping[str, str]

    @classmethod
    def of(cls, value: Mapping[str, object]) -> Self:
        """Return what the JSON object says."""
        made = cls(**value)  # type: ignore[arg-type]  # written by the same class
        traffic: Mapping[str, int] = made.traffic  # type: ignore[assignment]  # as JSON has it
        return replace(made, traffic=Traffic(**traffic), answer=tuple(made.answer))
