"""A new generation must follow on the one that was seen last: no fork of a package's history.

And it is sealed under the key that was seen: whoever sent another package, or got one, knows a key
that is wrapped for this store too.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from sealcar.errors import NotAuthenticError, NotFoundError, RolledBackError
from sealcar_server.service.finding import find

if TYPE_CHECKING:
    from sealcar_server.service.opened import OpenedPackage
    from sealcar_server.service.rollback import Sighting
    from sealcar_server.store.generation import Generation
    from sealcar_server.store.interface import Store


def check_history(store: Store, opened: OpenedPackage, seen: Sighting | None) -> None:
    """Follow the line of predecessors, each named by its digest, to the generation seen last.

    A generation that is older than that was asked for by its number, and is what its record says.
    After a version was removed its history begins anew.
    A line that breaks off because predecessors were pruned proves nothing, and is let through.

    Raises:
        RolledBackError: the line leads elsewhere, or the generation was removed before.
        NotFoundError: it is removed right now.
    """
    place = opened.place
    if seen is None:
        return
    if place.number <= seen.removed:
        if place.number not in store.numbers(place.name, place.version):
            raise NotFoundError("the generation was removed meanwhile: open the package anew")
        raise RolledBackError(f"generation {place.number} was removed, and put back from a copy")
    if place.number < seen.generation or seen.generation == seen.removed:
        return
    digest, previous = opened.digest, opened.record.previous
    for number in range(place.number - 1, seen.generation - 1, -1):
        digest = previous
        if number > seen.generation:
            line = _predecessor(store, place, number, digest)
            if line is None:
                return
            previous = line
    if digest != seen.record:
        raise RolledBackError(
            f"generation {place.number} isn't, or doesn't follow on, "
            f"the generation {seen.generation} that was seen before"
        )


def check_key(seen: Sighting | None, key: bytes) -> None:
    """Compare the fingerprint of a generation's key with the one of the package that was seen.

    Raises:
        NotAuthenticError: it is another package's.
    """
    if seen is None or not seen.key or seen.generation == seen.removed:
        return
    if not hmac.compare_digest(seen.key, key):
        raise NotAuthenticError("it is sealed under another package's key than was seen here")


def _predecessor(store: Store, place: Generation, number: int, digest: bytes) -> bytes | None:
    """Return whom a predecessor names in turn; None if it was pruned."""
    try:
        found = find(store.generation(place.name, place.version, number))
    except NotFoundError:
        return None
    if found.digest != digest:
        raise RolledBackError(f"generation {number} isn't what its successor was made from")
    return found.record.previous
