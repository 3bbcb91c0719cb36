from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import pytest

from sealcar.errors import (
    ConfigurationError,
    KeyRefusedError,
    KeyUnavailableError,
    LockedError,
    Place,
    SealcarError,
)
from sealcar_server.keys.file import FileProvider
from sealcar_server.keys.provider import KekDescription, KeyProvider, WrappedKey, package_context
from sealcar_server.keys.ring import KeyRing
from sealcar_server.keys.telling import for_clients
from sealcar_server.sealing.encoding import enc
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CONTEXT = b"context"


class CountingProvider:
    """A provider in memory that counts what it is asked, and can go away."""

    kind = "counting"

    def __init__(self) -> None:
        self.asked = 0
        self.gone = False
        self.disabled = False
        self.looked = 0
        self.closed = False

    def wrap(self, key: SecretBuffer, context: bytes) -> WrappedKey:
        return WrappedKey("7", bytes(key.view) + context)

    def unwrap(self, wrapped: WrappedKey, context: bytes) -> SecretBuffer:
        self.asked += 1
        self.health()
        if wrapped.blob[32:] != context:
            raise KeyRefusedError("another context")
        return SecretBuffer.copy_of(wrapped.blob[:32])

    def rewrap(self, wrapped: WrappedKey, context: bytes) -> WrappedKey:
        with self.unwrap(wrapped, context) as key:
            return self.wrap(key, context)

    def current_version(self) -> str:
        return "7"

    def describe(self) -> KekDescription:
        return KekDescription("counting", "in this test", "7", ("7",))

    def health(self) -> None:
        self.looked += 1
        if self.gone:
            raise KeyUnavailableError("gone")
        if self.disabled:
            raise KeyRefusedError("disabled")

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def provider() -> CountingProvider:
    return CountingProvider()


@pytest.fixture
def ring_of(provider: CountingProvider) -> Iterator[Callable[[float], KeyRing]]:
    rings: list[KeyRing] = []

    def make(lifetime: float) -> KeyRing:
        rings.append(KeyRing({"default": provider}, lifetime=lifetime))
        return rings[-1]

    yield make
    for ring in rings:
        ring.close()


def wrapped(ring: KeyRing, content: bytes = b"k") -> WrappedKey:
    with SecretBuffer.copy_of(content * 32) as key:
        return ring.wrap("default", key, CONTEXT)


def unwrapped(ring: KeyRing, key: WrappedKey) -> bytes:
    with ring.unwrap("default", key, CONTEXT) as found:
        return bytes(found.view)


def eventually(fact: Callable[[], bool]) -> bool:
    end = time.monotonic() + 5
    while not fact() and time.monotonic() < end:
        time.sleep(0.005)
    return fact()


def test_the_file_provider_is_a_key_provider(tmp_path: Path) -> None:
    provider: KeyProvider = FileProvider.create(tmp_path / "kek")
    with KeyRing({"default": provider}, lifetime=60) as ring:
        assert unwrapped(ring, wrapped(ring)) == b"k" * 32
        assert ring.current_version("default") == "1"


class Counts:
    """Counts what becomes of keys."""

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()

    def cached(self, result: str, count: int = 1) -> None:
        self.counted[result] += count

    def answered(self, alias: str, up: bool) -> None: ...  # noqa: FBT001  (a hook's argument)

    def asking(self, operation: str, alias: str) -> AbstractContextManager[None]:  # noqa: ARG002  (a hook's)
        return nullcontext()


@pytest.mark.parametrize(
    ("lifetime", "end", "result"),
    [
        (60, KeyRing.close, "forgotten"),
        (60, lambda ring: ring.forget("default"), "forgotten"),
        (0.05, lambda ring: eventually(lambda: not ring.cached), "expired"),
    ],
    ids=["closed", "forgotten", "expired"],
)
def test_every_key_that_was_kept_is_counted_when_it_goes(
    provider: CountingProvider, lifetime: float, end: Callable[[KeyRing], object], result: str
) -> None:
    meter = Counts()
    with KeyRing({"default": provider}, lifetime=lifetime, meter=meter) as ring:
        for content in (b"a", b"b"):
            unwrapped(ring, wrapped(ring, content))
        end(ring)
    assert meter.counted == Counter({"miss": 2, result: 2})


def test_an_unknown_alias_is_refused_without_asking_anyone(
    ring_of: Callable[[float], KeyRing], provider: CountingProvider
) -> None:
    ring = ring_of(60)
    key = wrapped(ring)
    with SecretBuffer(32) as empty:
        for attempt in (
            lambda: ring.unwrap("https://attacker.example/key", key, CONTEXT),
            lambda: ring.wrap("other", empty, CONTEXT),
            lambda: ring.current_version("other"),
        ):
            with pytest.raises(KeyRefusedError, match="no key-encryption key named"):
                attempt()
    assert provider.asked == 0


def test_a_key_is_asked_for_once_in_its_lifetime(
    ring_of: Callable[[float], KeyRing], provider: CountingProvider
) -> None:
    ring = ring_of(60)
    key, other = wrapped(ring), wrapped(ring, b"o")
    assert [unwrapped(ring, key) for _ in range(3)] == [b"k" * 32] * 3
    assert unwrapped(ring, other) == b"o" * 32
    assert provider.asked == 2
    assert ring.status()[0].cached == 2


def test_the_cache_never_answers_for_another_context_or_version(
    ring_of: Callable[[float], KeyRing],
) -> None:
    ring = ring_of(60)
    key = wrapped(ring)
    unwrapped(ring, key)
    with pytest.raises(KeyRefusedError):
        ring.unwrap("default", key, b"other")
    with pytest.raises(KeyRefusedError):
        ring.unwrap("default", WrappedKey("7", key.blob + b"x"), CONTEXT)
    assert ring.status()[0].cached == 1


def test_without_a_lifetime_nothing_is_kept(
    ring_of: Callable[[float], KeyRing], provider: CountingProvider
) -> None:
    ring = ring_of(0)
    key = wrapped(ring)
    assert unwrapped(ring, key) == unwrapped(ring, key)
    assert provider.asked == 2
    assert ring.status()[0].cached == 0


def test_a_kept_key_is_wiped_when_its_lifetime_ends_even_if_nobody_asks(
    ring_of: Callable[[float], KeyRing], provider: CountingProvider
) -> None:
    ring = ring_of(0.05)
    key = wrapped(ring)
    with ring.unwrap("default", key, CONTEXT) as handed_out:
        kept = next(iter(ring._entries.values())).key
        seen = kept.view[:]
        assert eventually(lambda: not ring._entries)
        assert not any(seen)
        assert bytes(handed_out.view) == b"k" * 32
    unwrapped(ring, key)
    assert provider.asked == 2


def test_closing_wipes_what_is_kept_but_not_what_was_handed_out(
    ring_of: Callable[[float], KeyRing], provider: CountingProvider
) -> None:
    ring = ring_of(60)
    with ring.unwrap("default", wrapped(ring), CONTEXT) as handed_out:
        seen = next(iter(ring._entries.values())).key.view[:]
        ring.close()
        assert not any(seen)
        assert provider.closed
        assert bytes(handed_out.view) == b"k" * 32
        assert not any(thread.name == "key-cache" for thread in threading.enumerate())


def test_an_unreachable_provider_is_unavailable_unless_the_key_is_kept(
    ring_of: Callable[[float], KeyRing], provider: CountingProvider
) -> None:
    ring = ring_of(60)
    kept, unseen = wrapped(ring), wrapped(ring, b"u")
    unwrapped(ring, kept)
    provider.gone = True
    assert unwrapped(ring, kept) == b"k" * 32
    with pytest.raises(KeyUnavailableError):
        ring.unwrap("default", unseen, CONTEXT)
    (status,) = ring.status()
    assert (status.alias, status.provider, status.version) == ("default", "counting", "7")
    assert (status.available, status.problem) == (False, "gone")


def test_many_threads_may_ask_at_once(ring_of: Callable[[float], KeyRing]) -> None:
    ring = ring_of(0.001)
    keys = [wrapped(ring, bytes([value])) for value in range(8)]
    wrong: list[int] = []

    def ask(value: int) -> None:
        wrong.extend(
            value for _ in range(200) if unwrapped(ring, keys[value]) != bytes([value]) * 32
        )

    threads = [threading.Thread(target=ask, args=(value,)) for value in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_package_s_context_is_the_document_s() -> None:
    assert package_context(b"i" * 16) == enc("sealcar v1 key wrap", "1", b"i" * 16)


def test_a_key_that_was_disabled_ends_its_cached_keys_at_the_next_look(
    provider: CountingProvider,
) -> None:
    other = CountingProvider()
    intervals = {"default": 0.05, "other": 60.0}
    with KeyRing(
        {"default": provider, "other": other}, lifetime=60, check_interval=intervals
    ) as ring:
        found = wrapped(ring)
        unwrapped(ring, found)
        ring.unwrap("other", found, CONTEXT).close()
        kept = next(iter(ring._entries.values())).key.view[:]
        provider.disabled = other.disabled = True
        assert eventually(lambda: len(ring._entries) == 1)
        assert not any(kept)
        with pytest.raises(KeyRefusedError, match="disabled"):
            ring.unwrap("default", found, CONTEXT)
        ring.unwrap("other", found, CONTEXT).close()


def test_an_outage_does_not_end_cached_keys_before_their_lifetime(
    provider: CountingProvider,
) -> None:
    with KeyRing({"default": provider}, lifetime=0.6, check_interval={"default": 0.05}) as ring:
        found = wrapped(ring)
        unwrapped(ring, found)
        provider.gone = True
        before = provider.looked
        assert eventually(lambda: provider.looked > before + 2)
        assert unwrapped(ring, found) == b"k" * 32
        assert eventually(lambda: not ring._entries)
        with pytest.raises(KeyUnavailableError):
            ring.unwrap("default", found, CONTEXT)


def test_a_refused_key_has_the_others_looked_at_at_once(provider: CountingProvider) -> None:
    with KeyRing({"default": provider}, lifetime=60) as ring:
        found = wrapped(ring)
        unwrapped(ring, found)
        with pytest.raises(KeyRefusedError):
            ring.unwrap("default", found, b"other")
        assert eventually(lambda: provider.looked > 2)
        assert ring._caches("default") == 1
        provider.disabled = True
        with pytest.raises(KeyRefusedError):
            ring.unwrap("default", found, b"other")
        assert eventually(lambda: not ring._entries)


def test_a_provider_without_cached_keys_is_left_alone(provider: CountingProvider) -> None:
    with KeyRing({"default": provider}, lifetime=60, check_interval={"default": 0.01}) as ring:
        wrapped(ring)
        time.sleep(0.1)
        assert provider.looked == 0


def test_a_key_unwrapped_while_all_are_forgotten_is_not_kept(provider: CountingProvider) -> None:
    with KeyRing({"default": provider}, lifetime=60) as ring:
        found = wrapped(ring)
        unwrap = provider.unwrap

        def meanwhile(wrapped: WrappedKey, context: bytes) -> SecretBuffer:
            ring.forget("default")
            return unwrap(wrapped, context)

        provider.unwrap = meanwhile  # type: ignore[method-assign]  # what another thread might do
        unwrapped(ring, found)
        assert not ring._entries


def test_an_outage_of_one_provider_costs_one_question_and_nothing_under_another(
    provider: CountingProvider,
) -> None:
    other = CountingProvider()
    with KeyRing({"default": provider, "other": other}, lifetime=0) as ring:
        found = wrapped(ring)
        provider.gone = True
        for _ in range(20):
            with pytest.raises(KeyUnavailableError) as caught:
                ring.unwrap("default", found, CONTEXT)
            assert caught.value.retry_after
            ring.unwrap("other", found, CONTEXT).close()
        assert (provider.asked, other.asked) == (1, 20)


def test_a_key_file_that_was_taken_off_the_disk_still_serves_from_memory(tmp_path: Path) -> None:
    with KeyRing({"default": FileProvider.create(tmp_path / "kek")}, lifetime=0) as ring:
        found = wrapped(ring)
        (tmp_path / "kek").unlink()
        (status,) = ring.status()
        assert (status.available, status.version) == (False, "1")
        assert unwrapped(ring, found) == b"k" * 32


def test_a_rewrapped_key_is_the_same_for_the_same_package(provider: CountingProvider) -> None:
    with KeyRing({"default": provider}, lifetime=0) as ring:
        moved = ring.rewrap("default", wrapped(ring), CONTEXT)
        assert unwrapped(ring, moved) == b"k" * 32
        assert ring.describe("default").key == "in this test"
        with pytest.raises(KeyRefusedError):
            ring.rewrap("default", moved, b"other")
        for attempt in (ring.describe, ring.forget):
            with pytest.raises(KeyRefusedError, match="no key-encryption key named"):
                attempt("unknown")


def test_a_reason_with_a_path_is_told_to_operators_and_not_to_clients(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kek"
    with KeyRing({"default": FileProvider.create(path)}, lifetime=0) as ring:
        key = wrapped(ring)
        path.rename(path.with_name("away"))
        with pytest.raises(SealcarError, match=str(path)):
            ring.rotate("default")
        foreign = WrappedKey("2", key.blob)
        for act in (
            lambda: ring.unwrap("default", foreign, CONTEXT),
            lambda: ring.rewrap("default", foreign, CONTEXT),
        ):
            with pytest.raises(KeyRefusedError, match=r"'default': .*no version '2'") as caught:
                act()
            assert str(tmp_path) not in caught.value.message
        assert str(path) in ring.status()[0].problem
    assert "no version '2'" in capsys.readouterr().out


def test_what_the_circuit_repeats_names_no_path_either(
    ring_of: Callable[[float], KeyRing],
    provider: CountingProvider,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ring = ring_of(0)
    key = wrapped(ring)

    def gone() -> None:
        raise KeyUnavailableError("key file /etc/sealcar/kek: No such file or directory")

    monkeypatch.setattr(provider, "health", gone)
    for _ in range(3):
        with pytest.raises(KeyUnavailableError, match=r"'default': .*try again later") as caught:
            ring.unwrap("default", key, CONTEXT)
        assert "/" not in str(caught.value)
        assert caught.value.retry_after
    assert provider.asked == 1
    assert capsys.readouterr().out.count("/etc/sealcar/kek") == 1
    assert "/etc/sealcar/kek" in ring.status()[0].problem


@pytest.mark.parametrize(
    "kind", [KeyRefusedError, KeyUnavailableError, LockedError, ConfigurationError]
)
def test_clients_hear_the_class_the_place_and_when_to_retry(kind: type[SealcarError]) -> None:
    place = Place("open", "ocr", "1")
    told = for_clients(kind("file /a/b has mode 0644", place=place, retry_after=3.0), "main")
    assert (type(told), told.place, told.retry_after) == (kind, place, 3.0)
    assert "'main'" in told.message
    assert "log" in told.message
    assert "/" not in told.message
    assert for_clients(kind("no"), "main").message == "key-encryption key 'main': no"
