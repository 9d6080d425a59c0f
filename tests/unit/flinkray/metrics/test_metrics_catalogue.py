"""The list of metrics, its page, and what is made from it."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from flinkray.metrics import grafana
from flinkray.metrics.catalogue import METRICS, table

PAGE = Path(__file__).parents[4] / "docs" / "operations" / "metrics.md"


def test_the_page_has_the_list() -> None:
    assert "\n".join(table()) in PAGE.read_text(), "docs/operations/metrics.md has another table than `table()` gives"


def test_no_two_metrics_have_one_name() -> None:
    assert len({metric.series for metric in METRICS}) == len(METRICS)


def test_the_files_are_what_grafana_and_prometheus_read(tmp_path: Path) -> None:
    shown, rules = grafana.write(tmp_path / "new")
    dashboard = json.loads(shown.read_text())
    assert dashboard == grafana.dashboard()
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places), "no panel covers another one"
    (group,) = yaml.safe_load(rules.read_text())["groups"]
    assert [rule["alert"] for rule in group["rules"]] == [rule.name for rule in grafana.alert_rules()]
