"""One sample is one new process: it gets ready, works when told to, and ends."""

from __future__ import annotations

import json
import os
import select
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bench import processes, told
from bench.quiet import Quiet

from sealcar.benching import usage
from sealcar.benching.caches import touch_free_memory

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator, Mapping

    from sealcar.benching.usage import Counters, Memory

_LOOK: Final = 0.003
_CLIENT: Final = "client"


@dataclass(frozen=True)
class Sample:
    """What one process took and needed.

    Attributes:
        stages: seconds from the beginning to each.
        calm: others used no more than 6 % of a core meanwhile.
        needed: by role: the client, and those who were there before.
    """

    stages: Mapping[str, float]
    calm: bool
    needed: Mapping[str, Counters]


@dataclass(frozen=True)
class Program:
    """What a fresh process runs: it speaks as `child.answer` does.

    Attributes:
        command: to be run, with its arguments.
        size: bytes that it needs; that much free memory is touched before, three times over.
        others: processes that work for it, by role: the daemon.
        before: called when it is ready, and not measured.
        variables: of its environment, over ours.
    """

    command: tuple[str, ...]
    size: int
    others: Mapping[str, int] = field(default_factory=dict)
    before: Callable[[], None] = lambda: None
    variables: Mapping[str, str] = field(default_factory=dict)

    def sample(self) -> Sample:
        """Run it once.

        Raises:
            RuntimeError: it ended without an answer.
        """
        with self.ready() as process:
            touch_free_memory(3 * self.size)
            roles = {_CLIENT: process.pid, **self.others}
            quiet = Quiet((os.getpid(), *roles.values()))
            stages = self.go(process)
            calm = quiet.was(max(stages.values(), default=0.0))
            return Sample(stages, calm, {role: quiet.needed[pid] for role, pid in roles.items()})

    def watch(self) -> dict[str, Memory]:
        """Run it once without taking the time, and return the most memory of each role.

        A role without what this user may look at isn't in it.

        Raises:
            RuntimeError: it ended without an answer.
        """
        found: dict[str, Memory] = {}
        with self.ready() as process:
            roles = {_CLIENT: process.pid, **self.others}

            def look() -> None:
                for role, pid in roles.items():
                    for place, each in enumerate(processes.family(pid)):
                        name = f"{role}'s child" if place else role
                        if seen := usage.memory(each):
                            found[name] = seen.or_more(found.get(name))

            self.go(process, look)
        return found

    @contextmanager
    def ready(self) -> Iterator[subprocess.Popen[str]]:
        """Have a process that is ready; it ends with the block."""
        with told.ready([(self.command, self.variables)]) as (process,):
            self.before()
            yield process

    @staticmethod
    def go(
        process: subprocess.Popen[str], meanwhile: Callable[[], None] | None = None
    ) -> dict[str, float]:
        """Have it work, and return the seconds to each stage; meanwhile, look every few ms."""
        told.go(process)
        assert process.stdout
        while meanwhile and not select.select([process.stdout], [], [], _LOOK)[0]:
            meanwhile()
        stages: Any = json.loads(told.line(process))
        if meanwhile:
            meanwhile()
        return {str(stage): float(seconds) for stage, seconds in stages.items()}
