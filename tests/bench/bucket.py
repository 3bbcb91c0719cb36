"""A payload out of a bucket, cold and from the cache, against the library's own plain download."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.bulk import Bulk, publish
from bench.comparing import Way, compare
from bench.fresh import Program
from bench.parts import Part, Setting
from bench.rows import Traffic
from scale.bucket import NAME, bucket
from support.daemon import Daemon

if TYPE_CHECKING:
    from bench.rows import Row
    from scale.bucket import Bucket

_PROGRAM: Final = str(Path(__file__).with_name("bucket_reader.py"))
_PLAIN: Final = "one plain download"
_COLD: Final = "daemon, out of the bucket"
_WARM: Final = "daemon, out of the cache"
_PREFIX: Final = "store"


def _run(setting: Setting) -> list[Row]:
    with tempfile.TemporaryDirectory(dir=setting.folder) as name:
        folder = Path(name)
        for each in ("bucket", "daemon"):
            (folder / each).mkdir()
        with (
            bucket(folder / "bucket") as service,
            Daemon(folder / "daemon", init=service.options(_PREFIX)) as daemon,
        ):
            with daemon.connect() as client:
                publish(client, [Bulk("blob", setting.size)])
            return compare(_ways(service, daemon, setting.size), setting)


def _ways(service: Bucket, daemon: Daemon, size: int) -> list[Way]:
    (path,) = (key for key, found in service.payloads(_PREFIX).items() if found >= size)
    plain = ("plain", service.endpoint, path.removeprefix(f"{NAME}/"))
    variables = {"AWS_ACCESS_KEY_ID": service.access, "AWS_SECRET_ACCESS_KEY": service.secret}
    served = {"bucket": service.pid}
    theirs = {"daemon": daemon.pid, **served}
    own = (sys.executable, _PROGRAM, "daemon", str(daemon.socket))
    conditions = {"server": service.server}

    def forget() -> None:
        for file in (daemon.store / "cache").iterdir():
            file.unlink()

    return [
        Way(
            _PLAIN,
            Program((sys.executable, _PROGRAM, *plain), size, served, variables=variables),
            traffic=Traffic(copied=2 * size),
            conditions=conditions,
        ),
        Way(
            _COLD,
            Program(own, size, theirs, forget),
            _PLAIN,
            Traffic(copied=6 * size),
            conditions,
        ),
        Way(_WARM, Program(own, size, theirs), _PLAIN, Traffic(copied=3 * size), conditions),
    ]


def _seconds(setting: Setting) -> float:
    return 15 + setting.rounds * 3 * (1 + 3 * setting.size / 1e9)


PARTS: Final = (
    Part("bucket", "a payload out of a bucket, against a plain download", _seconds, _run),
)
