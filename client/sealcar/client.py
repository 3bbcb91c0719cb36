"""The client: connect to a daemon, read the payloads of a scope, write those of a variant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sealcar.any_client import AnyClient
from sealcar.errors import WrongStateError
from sealcar.transfer.forking import ForkLock
from sealcar.transfer.location import Location
from sealcar.transfer.pool import Pool
from sealcar.transfer.reading import Scope
from sealcar.transfer.scopes import ScopeName
from sealcar.transfer.transactions import Transaction
from sealcar.v1 import data_socket_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sealcar.catalogue import Catalogue


@dataclass(frozen=True)
class DaemonState:
    """What a daemon says about itself.

    Attributes:
        serving: False while it drains or isn't ready.
        release: of the daemon.
        isolation: "uid", or "none" where a client may have the daemon's uid.
        session: how sure it is of a session's end: "pidfd", "pidfd-shared" or "connection".
        sessions, transfers: now.
        memory, memory_limit: bytes of rings, and the most allowed.
        uptime: seconds.
        locked: whether it waits for an operator's `sealcar unlock` before it reads or writes.
    """

    serving: bool
    release: str
    isolation: str
    session: str
    sessions: int
    transfers: int
    memory: int
    memory_limit: int
    uptime: int
    locked: bool


class Client(AnyClient[Scope]):
    """A daemon, for any number of threads. In a child of fork it connects anew.

    Args:
        location: where the daemon listens.
        timeout: seconds of silence after which a request fails.
        delivery: as `connect`.
    """

    def __init__(self, location: Location, *, timeout: float, delivery: str | None = None) -> None:
        self.location = location
        self._timeout = timeout
        self._pool = Pool(location, timeout=timeout, delivery=delivery)
        self._lock = ForkLock()
        self._catalogue: Catalogue | None = None
        self._closed = False

    def begin(
        self, package: str, component: str, variant: str, *, version: str = "", generation: int = 0
    ) -> Transaction:
        """Begin to write a variant, which replaces the one of that name if there is one.

        Raises:
            SealcarError: what the daemon answered.
        """
        return Transaction(self._pool, ScopeName(package, component, variant, version, generation))

    @property
    def catalogue(self) -> Catalogue:
        """What the store holds, and how packages get there. The first use loads gRPC.

        Raises:
            WrongStateError: the client is closed.
        """
        from sealcar.catalogue import Catalogue  # noqa: PLC0415  (gRPC only for those who list)

        with self._lock:
            if self._closed:
                raise WrongStateError("this client is closed")
            if self._catalogue is None:
                location = self.location
                self._catalogue = Catalogue.at(
                    location.directory, peer_uid=location.expected_uid(), timeout=self._timeout
                )
            return self._catalogue

    @property
    def delivery(self) -> str:
        """How large payloads come and go now: "ring" or "stream"."""
        return self._pool.delivery.name

    def try_delivery(self) -> None:
        """Find out now whether a stream has to be used, as far as that can be told beforehand.

        Else the first large payload shows it, which then goes over a stream itself.
        """
        self._pool.delivery.look()

    @property
    def delivery_reason(self) -> str:
        """Why it isn't a ring where that wasn't asked for; else empty."""
        return self._pool.delivery.reason

    def state(self) -> DaemonState:
        """Return what the daemon says about itself.

        Raises:
            SealcarError: it can't be reached, or what it answered.
        """
        with self._pool.leased() as connection:
            request = pb.ClientPacket(state=pb.StateRequest())
            state = connection.request(request, "state").state
            attested = connection.attested
        return DaemonState(
            serving=state.serving,
            release=attested.release,
            isolation=attested.isolation,
            session=attested.session,
            sessions=state.sessions,
            transfers=state.transfers,
            memory=state.memory,
            memory_limit=state.memory_limit,
            uptime=state.uptime_seconds,
            locked=state.locked,
        )

    def close(self) -> None:
        """Close all connections; transfers under way keep theirs until they end."""
        with self._lock:
            self._closed = True
            catalogue, self._catalogue = self._catalogue, None
        self._pool.close()
        if catalogue is not None:
            catalogue.close()

    def _scope(self, name: ScopeName, whole: Callable[[ScopeName], ScopeName] | None) -> Scope:
        return Scope(self._pool, name, whole)


def connect(
    socket: str | Path | None = None,
    *,
    peer_uid: int | None = None,
    timeout: float = 30.0,
    delivery: str | None = None,
) -> Client:
    """Connect to a daemon, waiting for one that isn't there yet.

    Args:
        socket: the listener's directory. Default: $SEALCAR_SOCKET, /run/sealcar/default if it
            exists, $XDG_RUNTIME_DIR/sealcar/default.
        peer_uid: uid that the daemon must have, checked before anything is sent. Default:
            $SEALCAR_PEER_UID, or the owner of that directory if nobody else can write to it.
        timeout: seconds to wait for the daemon, and of silence after which a request fails.
        delivery: how large payloads come and go. "ring": through memory that the daemon hands
            over. "stream": as bytes of a socket, which takes longer. "auto": through a ring, and
            over a stream from the first time on that this process can't be handed memory, as in
            some sandboxes. Default: $SEALCAR_DELIVERY, else "auto".

    Raises:
        UnavailableError: no daemon there in time, or one of another uid.
        DeniedError: the socket's permissions keep this process out.
        ConfigurationError: a setting is wrong.
        IncompatibleError: no common protocol.
    """
    client = Client(Location.find(socket, peer_uid), timeout=timeout, delivery=delivery)
    try:
        client.state()
    except BaseException:
        client.close()
        raise
    return client
