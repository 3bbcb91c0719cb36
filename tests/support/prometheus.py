"""A real Prometheus server that scrapes one daemon."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pathlib import Path

REASON = "needs Prometheus (Debian: prometheus)"
INSTALLED = bool(shutil.which("prometheus") and shutil.which("promtool"))
_CONFIG = """
global: {{scrape_interval: 200ms, evaluation_interval: 200ms, scrape_timeout: 200ms}}
rule_files: [{rules}]
scrape_configs:
  - job_name: sealcar
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


class Prometheus:
    """Use as a context manager; it has scraped the daemon at least twice by then.

    Args:
        folder: for its files.
        port: of the daemon's metrics.
        rules: a file of rules.
    """

    def __init__(self, folder: Path, port: int, rules: Path) -> None:
        config = folder / "prometheus.yml"
        config.write_text(_CONFIG.format(rules=rules, port=port))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._address = f"127.0.0.1:{free.getsockname()[1]}"
        self._log = folder.joinpath("prometheus.log").open("wb")
        self._process = subprocess.Popen(
            [  # noqa: S607  (of the system)
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={self._address}",
            ],
            stdout=self._log,
            stderr=self._log,
        )

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the samples that a query gives now."""
        answer = self.get("query", {"query": expression})
        assert answer["status"] == "success"
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    def get(self, what: str, values: dict[str, str]) -> dict[str, Any]:
        """Ask its HTTP API."""
        url = f"http://{self._address}/api/v1/{what}?{urllib.parse.urlencode(values)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            found: dict[str, Any] = json.loads(answer.read())
        return found

    def __enter__(self) -> Self:
        deadline = time.monotonic() + 30
        while True:
            try:
                seen = self.query("count_over_time(sealcar_build_info[1m])")
                if seen and float(seen[0]["value"][1]) >= 3:
                    return self
            except (OSError, urllib.error.URLError):
                pass
            assert time.monotonic() < deadline, "it scrapes nothing"
            time.sleep(0.1)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)
        self._log.close()
