"""What deploy/ has for Prometheus and Grafana is about metrics that a daemon really has."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from prometheus_client import CollectorRegistry
from support.daemon import Daemon
from support.payload_packages import COMPONENT, PACKAGE, VARIANT, publish, varied
from support.prometheus import INSTALLED, REASON, Prometheus

from sealcar_server.metrics_bucket import BucketMetrics

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(not INSTALLED, reason=REASON)
DEPLOY: Final = Path(__file__).parents[2] / "deploy"
RULES: Final = DEPLOY / "prometheus" / "sealcar.rules.yml"
DASHBOARD: Final[dict[str, Any]] = json.loads(
    DEPLOY.joinpath("grafana", "sealcar.json").read_text()
)
# put in by Grafana before Prometheus sees it
FILLED: Final = {"$instance": ".*", "$__rate_interval": "1m"}
PANELS: Final = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
_SELECTOR: Final = re.compile(r"\b(sealcar_\w+|process_\w+)(\{[^}]*\})?")
_MATCHER: Final = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
# of the scrape, not of the daemon
OF_THE_SCRAPE: Final = {"instance", "job"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Prometheus, Daemon]]:
    with Daemon(tmp_path_factory.mktemp("d")) as daemon, daemon.connect() as client:
        publish(client, {"blob": varied(3 << 20)})
        client.scope(PACKAGE, COMPONENT, VARIANT).read("blob")
        client.catalogue.get(PACKAGE)
        port = next(line["port"] for line in daemon.log if line["event"] == "metrics served")
        with Prometheus(tmp_path_factory.mktemp("p"), port, RULES) as prometheus:
            yield prometheus, daemon


def filled(expression: str) -> str:
    for name, value in FILLED.items():
        expression = expression.replace(name, value)
    return expression


def queries() -> list[str]:
    found = [target["expr"] for panel in PANELS for target in panel["targets"]]
    found += [note["expr"] for note in DASHBOARD["annotations"]["list"]]
    return [filled(one) for one in found]


def rules() -> list[str]:
    told = re.findall(r"expr: (>-\n(?: {10}.*\n)+|.*\n)", RULES.read_text())
    return [" ".join(one.removeprefix(">-").split()) for one in told]


def labels_of(daemon: Daemon) -> dict[str, set[str]]:
    """Return the names of the labels of each sample that the daemon has."""
    found: dict[str, set[str]] = {}
    for name, labels in daemon.metrics():
        found.setdefault(name, set()).update(label for label, _ in labels)
    return found | labels_of_a_bucket()


def labels_of_a_bucket() -> dict[str, set[str]]:
    """Return those of a daemon whose store is in one, once it was asked for something."""
    registry = CollectorRegistry()
    BucketMetrics(registry).asked("range", "failed")
    samples = [sample for family in registry.collect() for sample in family.samples]
    return {sample.name: set(sample.labels) for sample in samples}


def test_a_real_server_scrapes_the_daemon(server: tuple[Prometheus, Daemon]) -> None:
    prometheus, _ = server
    (up,) = prometheus.query('up{job="sealcar"}')
    assert up["value"][1] == "1"
    (moved,) = prometheus.query('sealcar_payload_bytes_total{direction="read",delivery="ring"}')
    assert float(moved["value"][1]) == 3 << 20
    types = prometheus.get("targets/metadata", {"metric": "sealcar_transfer_seconds"})["data"]
    assert [one["type"] for one in types] == ["histogram"]


def test_every_query_is_about_metrics_and_labels_that_there_are(
    server: tuple[Prometheus, Daemon],
) -> None:
    _, daemon = server
    known = labels_of(daemon)
    used = set()
    for query in (*queries(), *rules()):
        for name, matchers in _SELECTOR.findall(query):
            assert name in known, query
            used.add(name)
            labels = set(_MATCHER.findall(matchers))
            assert labels <= known[name] | OF_THE_SCRAPE, query
        # what is grouped by has to be a label of something in the query
        names = [name for name, _ in _SELECTOR.findall(query)]
        there = {label for name in names for label in known[name]} | OF_THE_SCRAPE
        for grouped in re.findall(r"\b(?:by|on) \(([^)]*)\)", query):
            assert {one.strip() for one in grouped.split(",")} <= there, query
    assert len(used) > 30


def test_every_query_is_one_to_a_real_server(server: tuple[Prometheus, Daemon]) -> None:
    prometheus, _ = server
    for query in queries():
        prometheus.query(query)
    # one of each kind, with an answer
    assert prometheus.query(filled(PANELS[0]["targets"][0]["expr"]))[0]["value"][1] == "0"
    groups = prometheus.get("rules", {})["data"]["groups"]
    assert [one["name"] for one in groups] == [
        "sealcar",
        "sealcar-protection",
        "sealcar-service",
    ]


def test_a_daemon_that_is_well_sets_off_no_alert(server: tuple[Prometheus, Daemon]) -> None:
    prometheus, _ = server
    pending = prometheus.query("ALERTS")
    # a daemon of a test has no isolation, and locks no pages where the limit is low
    names = {one["metric"]["alertname"] for one in pending}
    assert names <= {"SealcarNoIsolation", "SealcarSegmentsSwappable", "SealcarStoreFull"}


def test_every_alert_has_a_test_that_makes_it_fire() -> None:
    tested = subprocess.run(
        ["promtool", "test", "rules", "sealcar.test.yml"],  # noqa: S607  (of the system)
        cwd=RULES.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text())
    tests = RULES.with_name("sealcar.test.yml").read_text()
    assert alerts
    for name in alerts:
        assert f"  - name: {name}\n" in tests
        assert f"{{alertname: {name}," in tests  # that it doesn't, where all is well


def test_every_alert_says_what_is_wrong_and_how_bad_it_is() -> None:
    blocks = RULES.read_text().split("- alert: ")[1:]
    for block in blocks:
        assert re.search(r"labels: \{severity: (critical|warning|info)\}", block), block
        assert "summary: " in block


def test_the_dashboard_has_no_two_panels_in_one_place_and_each_says_what_it_is() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        area = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not area & taken, panel["title"]
        assert max(x for x, _ in area) < 24
        taken |= area
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    for panel in PANELS:
        assert panel["description"], panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
