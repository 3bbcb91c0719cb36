from __future__ import annotations

import copy
import os
import pickle
import re
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sealcar_server.sealing import secret as secret_module
from sealcar_server.sealing.derivation import PayloadKey
from sealcar_server.sealing.secret import SecretBuffer

if TYPE_CHECKING:
    from types import FrameType

    from _typeshed import TraceFunction


def mapping_flags(address: int) -> list[str]:
    """Return what the kernel says of the memory at an address."""
    maps = Path("/proc/self/smaps").read_text()
    for block in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", maps)[1:]:
        low, high = (int(part, 16) for part in block.split()[0].split("-"))
        if low <= address < high:
            return next(line for line in block.splitlines() if "VmFlags" in line).split()
    raise AssertionError(address)


def test_a_secret_is_locked_left_out_of_core_files_and_wiped_in_children() -> None:
    with SecretBuffer.random(32) as secret:
        flags = mapping_flags(secret._address)
        # lo: locked; dd: not dumped; wf: wiped on fork
        assert {"lo", "dd", "wf"} <= set(flags)


def test_a_forked_child_sees_zeros() -> None:
    with SecretBuffer.copy_of(b"x" * 32) as secret:
        child = os.fork()
        if child == 0:
            os._exit(any(secret.view))
        assert os.waitpid(child, 0)[1] == 0
        assert bytes(secret.view) == b"x" * 32


def test_random_secrets_differ_and_copies_are_independent() -> None:
    with SecretBuffer.random(32) as one, SecretBuffer.random(32) as other, one.copy() as copied:
        assert bytes(one.view) != bytes(other.view)
        one.wipe()
        assert not any(one.view)
        assert any(copied.view)


def test_closing_wipes_even_what_a_slice_still_holds() -> None:
    secret = SecretBuffer.copy_of(b"secret")
    part = secret.view[1:3]
    secret.close()
    secret.close()
    assert bytes(part) == b"\0\0"


def test_a_secret_is_never_shown_pickled_or_compared_by_content() -> None:
    with SecretBuffer.copy_of(b"secret") as secret:
        assert repr(secret) == str(secret) == "<SecretBuffer of 6 bytes>"
        assert len(secret) == 6
        for attempt in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError):
                attempt(secret)


def test_a_payload_key_shows_its_associated_data_only() -> None:
    text = repr(PayloadKey(b"key of 32 bytes, never to be seen", b"data"))
    assert "never" not in text
    assert "data" in text


def test_a_slice_of_a_closed_secret_never_shows_the_next_one() -> None:
    secret = SecretBuffer.random(32)
    part = secret.view[:16]
    secret.close()
    with SecretBuffer.copy_of(b"n" * 32) as following:
        assert bytes(part) == bytes(16)
        assert bytes(following.view) == b"n" * 32


def test_a_new_secret_is_zeros_and_protected_whatever_was_there_before() -> None:
    SecretBuffer.copy_of(b"x" * 32).close()
    with SecretBuffer(32) as secret:
        assert bytes(secret.view) == bytes(32)
        assert {"lo", "dd", "wf"} <= set(mapping_flags(secret._address))


@pytest.mark.parametrize("step", range(1, 20))
def test_two_threads_that_close_a_secret_never_make_two_secrets_share_memory(step: int) -> None:
    secret = SecretBuffer.random(32)
    other = threading.Thread(target=secret.close)
    left = step

    def trace(frame: FrameType, event: str, _: object) -> TraceFunction:
        nonlocal left
        if frame.f_code.co_filename == secret_module.__file__ and event == "line":
            left -= 1
            if left == 0:
                other.start()
                other.join(0.01)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        secret.close()
    finally:
        sys.settrace(before)
    if other.ident is not None:
        other.join()
    with SecretBuffer(32) as one, SecretBuffer(32) as two:
        assert one._address != two._address
