"""Real shells complete command lines of sealcar by the scripts that it prints for them."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final, Self

import pytest
from support.daemon import environment

SHELLS: Final = {name: shutil.which(name) for name in ("bash", "fish", "zsh")}
PATH: Final = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
# what bash does when somebody presses tab: words, and which of them the cursor is at
BASH: Final = """
eval "$(sealcar completion bash)"
COMP_WORDS=({words}) COMP_CWORD={at}
$(complete -p sealcar | sed 's/.*-F \\([^ ]*\\) .*/\\1/') sealcar
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH: Final = b"""\
PS1= PS2= RPS1=; unsetopt zle_bracketed_paste 2>/dev/null; setopt no_beep; KEYTIMEOUT=1
autoload -Uz compinit && compinit -u -D
eval "$(sealcar completion zsh)"
print -r -- READ''Y
"""


def variables(tmp_path: Path) -> dict[str, str]:
    return {**environment(), "PATH": PATH, "HOME": str(tmp_path), "TERM": "dumb"}


def needs(shell: str) -> str:
    found = SHELLS[shell]
    if found is None:
        pytest.skip(f"{shell} isn't installed")
    return found


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sealcar", "pre"], ["prefetch"]),
        (["sealcar", "keys", "r"], ["report", "revoke", "rewrap", "rotate"]),
        (["sealcar", "completion", ""], ["bash", "fish", "zsh"]),
        (["sealcar", "import", "--keep"], ["--keep-inline"]),
        (["sealcar", "policy", "explain", "export"], ["export", "export-plain"]),
    ],
    ids=" ".join,
)
def test_bash_completes(words: list[str], expected: list[str], tmp_path: Path) -> None:
    quoted = " ".join(f"'{word}'" for word in words)
    done = subprocess.run(
        [needs("bash"), "--norc", "-c", BASH.format(words=quoted, at=len(words) - 1)],
        env=variables(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.split() == expected


def test_fish_completes(tmp_path: Path) -> None:
    script = 'sealcar completion fish | source; complete -C "sealcar keys rew"'
    done = subprocess.run(
        [needs("fish"), "--private", "-c", script],
        env=variables(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "rewrap\tMove packages to their key's current version.\n"


def test_zsh_completes(tmp_path: Path) -> None:
    with Terminal([needs("zsh"), "-f", "-i"], variables(tmp_path)) as terminal:
        terminal.say(ZSH)
        terminal.heard(rb"READY\r")
        # one word is left, which a tab puts into the line; the line is then shown, not run
        terminal.say(b"sealcar keys rew\t")
        terminal.heard(rb"rewrap ")
        terminal.say(b"\x01print -r -- LINE \x05\n")
        assert terminal.heard(rb"\nLINE ([^\r]*)\r")[1].split() == [b"sealcar", b"keys", b"rewrap"]


class Terminal:
    """A program that believes that a person types."""

    def __init__(self, command: list[str], variables: dict[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            command,
            env=variables,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._heard = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def say(self, text: bytes) -> None:
        os.write(self._ours, text)

    def heard(self, pattern: bytes, timeout: float = 20) -> re.Match[bytes]:
        """Wait for what the program says."""
        end = time.monotonic() + timeout
        while not (found := re.search(pattern, self._heard)):
            ready, _, _ = select.select([self._ours], [], [], max(0, end - time.monotonic()))
            assert ready, self._heard
            self._heard += os.read(self._ours, 4096)
        self._heard = self._heard[found.end() :]
        return found


@pytest.mark.parametrize("words", ["sealcar ", "sealcar serve --", "sealcar ls --"])
def test_completing_loads_no_transport_and_no_runtime(words: str) -> None:
    asks = (
        "import atexit, sys; from sealcar.cli import main\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        "main.run([])"
    )
    done = subprocess.run(
        [sys.executable, "-c", asks],
        env={
            **environment(),
            "_SEALCAR_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.count("plain,") > 3
    loaded = {name.split(".")[0] for name in done.stderr.split()}
    assert "click" in loaded
    assert loaded & {"grpc", "google", "onnxruntime", "numpy", "onnx", "prometheus_client"} == set()
