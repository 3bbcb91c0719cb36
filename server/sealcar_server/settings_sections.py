"""The sections of the daemon's settings: every key, its kind, its default and what it is for."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from sealcar.address import Address
from sealcar_server import settings_kinds as kinds
from sealcar_server.keys.source import KeyUri
from sealcar_server.settings_spec import Spec

_STEP: Final = kinds.choice("require", "on", "off")


@dataclass(frozen=True, kw_only=True)
class Daemon:
    """[daemon]: the process itself."""

    isolation: Annotated[
        str, Spec(kinds.choice("uid", "none"), "what keeps clients apart from the daemon")
    ] = "uid"
    state_dir: Annotated[Path, Spec(kinds.path(), "what it has to remember; inner sockets")]
    workers: Annotated[
        int, Spec(kinds.number(0, 256), "threads that seal and open; 0: one a core")
    ] = 0
    grpc_threads: Annotated[int, Spec(kinds.number(2, 256), "gRPC calls served at once")] = 16
    drain_timeout: Annotated[
        float, Spec(kinds.duration(0, 3600), "how long transfers may go on after SIGTERM")
    ] = 30.0
    start: Annotated[
        str, Spec(kinds.choice("unlocked", "locked"), "locked: no key before `sealcar unlock`")
    ] = "unlocked"
    key_lifetime: Annotated[
        float, Spec(kinds.duration(0, 604800), "how long an unwrapped package key is kept")
    ] = 3600.0


@dataclass(frozen=True, kw_only=True)
class Listen:
    """[listen.NAME]: a directory with grpc.sock, data.sock and flow.sock."""

    dir: Annotated[Path, Spec(kinds.path(), "directory of the sockets")]
    mode: Annotated[int, Spec(kinds.mode(), "of the sockets: who may connect at all")] = 0o660
    group: Annotated[
        int | None, Spec(kinds.group(), "of the sockets; the daemon's own if left out")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Admin:
    """[admin]: the operators' socket."""

    dir: Annotated[Path, Spec(kinds.path(), "directory of admin.sock, for the daemon's user only")]
    tink_export: Annotated[
        bool, Spec(kinds.boolean(), "true: `sealcar keys export-tink` lets keys of variants out")
    ] = False


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """[metrics]: Prometheus metrics over HTTP."""

    address: Annotated[kinds.Address | None, Spec(kinds.address(), "where /metrics is served")] = (
        None
    )


@dataclass(frozen=True, kw_only=True)
class Traces:
    """[traces]: OpenTelemetry, by the extra `otel`."""

    endpoint: Annotated[
        str | None, Spec(kinds.endpoint(), "collector, OTLP over HTTP, that gets spans of requests")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Tls:
    """[tls]: gRPC on TCP, for callers with certificates; all of it or nothing."""

    address: Annotated[
        kinds.Address | None, Spec(kinds.address(), "where gRPC is served over mutual TLS")
    ] = None
    certificate: Annotated[
        Path | None, Spec(kinds.path(), "the daemon's certificate, PEM, and those that it hangs on")
    ] = None
    key: Annotated[Path | None, Spec(kinds.secret(), "its private key, PEM")] = None
    client_ca: Annotated[
        Path | None, Spec(kinds.path(), "certificates, PEM, of those who sign callers' ones")
    ] = None
    trust_domain: Annotated[
        str | None, Spec(kinds.trust_domain(), "whose workloads may call at all")
    ] = None


@dataclass(frozen=True, kw_only=True)
class Key:
    """[keys.ALIAS]: a key-encryption key."""

    uri: Annotated[KeyUri, Spec(kinds.key_uri(), "where the key is")]
    secret: Annotated[
        Path | None,
        Spec(kinds.secret(), "file with what opens it: passphrase, PIN, token, credentials"),
    ] = None
    timeout: Annotated[
        float, Spec(kinds.duration(0.1, 60), "how long its provider may take to answer")
    ] = 5.0
    check_interval: Annotated[
        float,
        Spec(kinds.duration(1, 86400), "time between two looks whether keys in use still may be"),
    ] = 60.0


@dataclass(frozen=True, kw_only=True)
class PolicyFile:
    """[policy]: who may do what."""

    file: Annotated[Path, Spec(kinds.path(), "the policy file")]


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """[transfer]: bytes on the move."""

    memory_limit: Annotated[
        int, Spec(kinds.size(16 << 20), "sum of all rings and shared segments")
    ] = 256 << 20
    # shorter than a client's usual patience, so that it hears the reason and not just silence
    wait: Annotated[
        float, Spec(kinds.duration(0, 3600), "how long a transfer waits for memory")
    ] = 20.0
    idle_timeout: Annotated[
        float, Spec(kinds.duration(1, 86400), "how long a client may leave a transfer waiting")
    ] = 60.0
    transaction_ttl: Annotated[
        float, Spec(kinds.duration(1, 86400), "idle time after which a gRPC transaction is aborted")
    ] = 300.0


@dataclass(frozen=True, kw_only=True)
class Prefetch:
    """[prefetch]: what is got ready before anybody asks for it."""

    packages: Annotated[
        tuple[Address, ...],
        Spec(kinds.packages(), "got ready at the start, and after `sealcar unlock`"),
    ] = ()
    shared: Annotated[
        bool, Spec(kinds.boolean(), "true: their weights are decrypted, for all who share them")
    ] = False


@dataclass(frozen=True, kw_only=True)
class Transit:
    """[transit]: packages that come from others, and go to them."""

    signing_key: Annotated[
        Path | None, Spec(kinds.secret(), "Ed25519 key, PEM, that signs what leaves for others")
    ] = None
    publishers: Annotated[
        Path | None,
        Spec(kinds.path(), "public keys, PEM: one of them must have signed what others send"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """[limits]: what one uid may take, and one model."""

    sessions: Annotated[
        int, Spec(kinds.number(1, 65536), "processes of one uid that are connected at a time")
    ] = 256
    connections: Annotated[
        int,
        Spec(
            kinds.number(2, 1024),
            "connections of one uid to data.sock and flow.sock; to grpc.sock half",
        ),
    ] = 256
    transfers: Annotated[
        int, Spec(kinds.number(1, 1024), "payloads of one uid that move through rings at a time")
    ] = 128
    requests: Annotated[
        int, Spec(kinds.number(0, 1000000), "requests of one uid a second; 0: no limit")
    ] = 0
    share_beside_others: Annotated[
        int,
        Spec(
            kinds.number(1, 100),
            "percent of the daemon's time for uids that ask without pause, while another one asks;"
            " 100: as much as they take",
        ),
    ] = 5
    checked_model: Annotated[
        int, Spec(kinds.size(1 << 20), "the largest model, and all that are looked at at a time")
    ] = 1 << 30
    check_time: Annotated[
        float, Spec(kinds.duration(0.1, 3600), "how long a look at a model may take")
    ] = 60.0


@dataclass(frozen=True, kw_only=True)
class Rollback:
    """[rollback]: what keeps older packages away."""

    require_pins: Annotated[
        bool, Spec(kinds.boolean(), "true: nobody reads what no [[pin]] of the policy is about")
    ] = False


@dataclass(frozen=True, kw_only=True)
class Audit:
    """[audit]: who was let do what, and which keys were used."""

    mode: Annotated[
        str,
        Spec(
            kinds.choice("required", "best-effort", "off"),
            "required: what can't be accounted for is refused",
        ),
    ] = "required"
    dir: Annotated[
        Path | None,
        Spec(kinds.path(), "directory of the audit log; by default `audit` in daemon.state_dir"),
    ] = None
    sync_interval: Annotated[
        float, Spec(kinds.duration(0.05, 60), "how long a line may not be on the disk yet")
    ] = 1.0
    file_size: Annotated[
        int, Spec(kinds.size(64 << 10), "after how many bytes a new file is begun")
    ] = 64 << 20


@dataclass(frozen=True, kw_only=True)
class Hardening:
    """[hardening]: what the daemon gives up at its start; "require": or it doesn't start."""

    landlock: Annotated[
        str, Spec(_STEP, "reaching files and TCP ports that the settings don't name")
    ] = "on"
    seccomp: Annotated[str, Spec(_STEP, "system calls that it never makes")] = "on"
    capabilities: Annotated[str, Spec(_STEP, "all powers of root, if it has any")] = "on"
    readable: Annotated[
        tuple[Path, ...], Spec(kinds.paths(), "what key providers read besides, for Landlock")
    ] = ()
    writable: Annotated[
        tuple[Path, ...], Spec(kinds.paths(), "what key providers change besides, for Landlock")
    ] = ()


@dataclass(frozen=True, kw_only=True)
class Log:
    """[log]: one line an event, on standard error."""

    level: Annotated[
        str, Spec(kinds.choice("debug", "info", "warning", "error"), "least severity")
    ] = "info"
    format: Annotated[
        str, Spec(kinds.choice("auto", "json", "console"), "auto: console on a terminal, else JSON")
    ] = "auto"
