"""What the service asks of a store, wherever that is: in a directory (`local`), or in a bucket.

The local ones say what each method does and raises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from sealcar_server.sealing.sealed_file import SealedFile
    from sealcar_server.store.directory import Directory
    from sealcar_server.store.generation import Generation
    from sealcar_server.store.identity import StoreIdentity
    from sealcar_server.store.usage import FileUse


class Pending(Protocol):
    """A small file that is written and not in its place yet: as `staged_file.StagedFile`."""

    def __enter__(self) -> Self:
        """Give itself."""

    def __exit__(self, *_: object) -> None:
        """Throw it away unless it was published."""

    def publish(self) -> None:
        """Put it into its place.

        Raises:
            ConflictError: another daemon changed what is there since it was last read.
            StorageError: the old one stands.
        """


class Staging(Protocol):
    """A generation in the making: as `staging.LocalStaging`."""

    def create_payload(self, component: str, variant: str, name: str) -> int:
        """Return a descriptor of a new payload file, which the caller owns."""

    def create_variant(self, component: str, variant: str) -> None:
        """Make a variant that may have no payload of its own."""

    def create_asset(self, label: str, name: str) -> int:
        """Return a descriptor of a new file of a shared asset that isn't named yet."""

    def open_new_asset(self, label: str, name: str) -> SealedFile:
        """Return a file that `create_asset` made, open for reading."""

    def enter_asset(self, label: str) -> Directory:
        """Open the directory of an asset that was created or linked from another package."""

    def name_asset(self, label: str, uri: str) -> None:
        """Give an asset its name."""

    def remove_asset(self, label: str) -> None:
        """Remove an asset again."""

    def open_payload(self, component: str, variant: str, name: str) -> SealedFile:
        """Return a file that `create_payload` made, open for reading."""

    def remove_payload(self, component: str, variant: str, name: str) -> None:
        """Remove a payload file again."""

    def link_payload(self, source: Generation, component: str, variant: str, name: str) -> str:
        """Take over an unchanged payload; return how."""

    def link_asset(self, source: Generation, uri: str, name: str) -> str:
        """Take over a file of a shared asset; return how."""

    def unlink_payloads(self) -> None:
        """Give up everything that was linked."""

    def publish(self, manifest: bytes, number: int) -> Generation:
        """Make it visible as generation `number`, in one step."""

    def discard(self) -> None:
        """Remove everything; fine if it was published or discarded before."""

    def __enter__(self) -> Self:
        """Give itself."""

    def __exit__(self, *_: object) -> None:
        """Discard it unless it was published."""


class Store(Protocol):
    """A store, open; safe to share between threads: as `local.LocalStore`."""

    @property
    def identity(self) -> StoreIdentity:
        """Which store this is, and its wrapped key."""

    @property
    def refresh(self) -> float:
        """Seconds after which what others change is noticed; 0: nobody else changes it."""

    @property
    def read_only(self) -> bool:
        """Whether nothing in it may be changed: then whatever would raises WrongStateError."""

    @property
    def bucket(self) -> str:
        """Where it is, if it isn't in a directory; else empty."""

    def let_go(self) -> None:
        """Let nobody wait for it any more: the daemon stops."""

    def failure(self) -> str:
        """Return why it can't be reached now; empty: it can. It takes two seconds at most."""

    def names(self) -> list[str]:
        """Return the names of packages, sorted."""

    def prepare(self, names: Sequence[str]) -> None:
        """Have at hand what a list tells of these packages: somebody is about to ask."""

    def versions(self, name: str) -> list[str]:
        """Return the versions that have a generation, sorted."""

    def numbers(self, name: str, version: str) -> list[int]:
        """Return the generations' numbers, newest first."""

    def newest(self, name: str, version: str) -> int:
        """Return the number of the newest complete generation; 0 if there is none."""

    def is_complete(self, name: str, version: str, number: int) -> bool:
        """Tell whether there is a generation of that number, and its manifest."""

    def generation(self, name: str, version: str, number: int) -> Generation:
        """Return a generation; NotFoundError if there is no complete one of that number."""

    def place(self, name: str, version: str, number: int) -> Generation:
        """Return where a generation belongs, whether or not it is there."""

    def stage(self, name: str, version: str) -> Staging:
        """Begin a new generation."""

    def remove(self, name: str, version: str, number: int) -> None:
        """Remove a generation."""

    def taking_out(self, name: str, version: str, number: int = 0) -> AbstractContextManager[None]:
        """Take out a generation or the whole version: gone inside, its files removed at the end."""

    def usage(self, name: str, version: str, number: int) -> list[FileUse]:
        """Return the files of a generation, complete or not."""

    def clean(self, *, only_look: bool = False) -> list[FileUse]:
        """Remove what dead processes left; return its files."""

    def read_tombstone(self, name: str, version: str) -> bytes | None:
        """Return the tombstone of a version as it was written; None if there is none."""

    def write_tombstone(self, name: str, version: str, data: bytes) -> None:
        """Mark a version as shredded, durably."""

    def read_departure(self, name: str, version: str) -> bytes | None:
        """Return what a daemon noted of a version that it removed; None if there is nothing."""

    def write_departure(self, name: str, version: str, data: bytes) -> None:
        """Write that, in place of what was last read; ConflictError if another daemon did."""

    def tell(self, departed: Callable[[str, str, int, int], None]) -> None:
        """Have this called before a generation goes with its version: name, version, number.

        The last argument is up to which one it has to be known already that the version is
        removed; 0: it is removed here. What it raises keeps the version.
        """

    def look_anew(self, name: str, version: str) -> None:
        """Believe nothing that is remembered of a version's generations."""

    def read_asset_entry(self, label: str) -> bytes | None:
        """Return what the index of equal assets has under a label; None if it has nothing."""

    def write_asset_entry(self, label: str, data: bytes) -> None:
        """Write into the index of equal assets, in place of what is there."""

    def asset_entries(self) -> list[str]:
        """Return the labels of the index of equal assets, sorted."""

    def use_of_asset_entry(self, label: str) -> FileUse:
        """Return which file an entry is; NotFoundError if there is none."""

    def remove_asset_entry(self, label: str) -> None:
        """Remove an entry of the index; fine if there is none."""

    def replace_identity(self, identity: StoreIdentity) -> None:
        """Write `store.json` anew; ConflictError if another daemon did meanwhile."""

    def read_current(self, name: str) -> bytes | None:
        """Return the pointer to the current version as it was written; None if there is none."""

    def stage_current(self, name: str, data: bytes) -> Pending:
        """Write a package's pointer beside, so that publishing it needs no more room."""

    def close(self) -> None:
        """Close the store; twice is fine."""

    def __enter__(self) -> Self:
        """Give itself."""

    def __exit__(self, *_: object) -> None:
        """Close it."""
