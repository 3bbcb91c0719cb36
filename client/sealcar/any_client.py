"""What every client of a daemon can do, on this machine or elsewhere: name what is to be read."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from sealcar.closing import Closing
from sealcar.errors import InvalidRequestError, LockedError, NotFoundError
from sealcar.names import shown
from sealcar.transfer.any_scope import AnyScope
from sealcar.transfer.scopes import ScopeName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sealcar.catalogue import Catalogue, VariantInfo

_Scope = TypeVar("_Scope", bound=AnyScope)
_NAMED: Final = 10  # variants in a message


class AnyClient(Closing, Generic[_Scope]):
    """A daemon, for any number of threads."""

    @property
    @abstractmethod
    def catalogue(self) -> Catalogue:
        """What the store holds, and how packages get there."""

    def scope(
        self,
        package: str,
        component: str | None = None,
        variant: str | None = None,
        *,
        version: str = "",
        generation: int = 0,
    ) -> _Scope:
        """Name a variant to read from; nothing is asked until the scope is used.

        Args:
            package: store name.
            component: may be left out where the package has one.
            variant: may be left out where the component has one.
            version: store version; empty: the current one.
            generation: 0: the newest.
        """
        name = ScopeName(package, component or "", variant or "", version, generation)
        if component is not None and variant is not None:
            return self._scope(name, None)
        # the catalogue is had only when it is asked: on this machine it loads gRPC
        return self._scope(name, lambda asked: _resolve(self.catalogue, component, variant, asked))

    @abstractmethod
    def _scope(self, name: ScopeName, whole: Callable[[ScopeName], ScopeName] | None) -> _Scope:
        """Return a scope; `whole` finds the names that were left out."""


def _resolve(
    catalogue: Catalogue, component: str | None, variant: str | None, name: ScopeName
) -> ScopeName:
    """Return the whole name of the one variant that is meant where names were left out.

    Raises:
        InvalidRequestError: several variants could be meant. NotFoundError: there is no such one.
        LockedError: nobody has checked which variants there are.
        SealcarError: what the daemon answered.
    """
    found = catalogue.get(name.package, name.version, name.generation)
    if not found.verified:
        raise LockedError("the daemon is locked: an operator has to use `sealcar unlock`")
    one = _only(found.variants, component, variant, name)
    return ScopeName(
        found.summary.name,
        one.component,
        one.variant,
        found.summary.version,
        found.summary.generation,
    )


def _only(
    variants: Iterable[VariantInfo], component: str | None, variant: str | None, name: ScopeName
) -> VariantInfo:
    there = [one for one in variants if one.sealed]
    matching = [
        one
        for one in there
        if component in (None, one.component) and variant in (None, one.variant)
    ]
    if len(matching) == 1:
        return matching[0]
    if not matching:
        asked = f"{shown(component or '*')}/{shown(variant or '*')}"
        raise NotFoundError(f"{name.package} has no variant {asked}; there is: {_named(there)}")
    raise InvalidRequestError(
        f"{name.package} has {len(matching)} variants that match: {_named(matching)};"
        " name the component and the variant"
    )


def _named(variants: Sequence[VariantInfo]) -> str:
    known = [f"{one.component}/{one.variant}" for one in variants[:_NAMED]]
    more = ["…"] if len(variants) > _NAMED else []
    return ", ".join([*known, *more]) or "none"
