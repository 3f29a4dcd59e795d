"""Dashboard and alerts: each query uses existing metrics, and each alert fires when it should."""

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import Metric

from agent.base.metrics import REGISTRY
from hack.lab.all_modules import import_all_modules
from hack.lab.sandbox.objects import REPOSITORY
from tests.chart.helm import CHART, of, template
from tests.chart.prometheus import promtool
from tests.docs.pages import anchors

pytestmark = pytest.mark.full("Needs Helm.")

Raw = dict[str, Any]

DASHBOARD: Raw = json.loads((CHART / "files/dashboard.json").read_text())
ALERTS: dict[str, Raw] = {
    rule["alert"]: rule
    for group in yaml.safe_load((CHART / "files/alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
}
OF_PROMETHEUS = {"job", "instance"}
"""Labels that Prometheus adds to every series when it scrapes."""

_STRING = re.compile(r'"[^"]*"')
_SELECTOR = re.compile(r"([a-z_]+)\{([^}]*)\}")
_NAME = re.compile(r"\b(?:flotilla|process)_\w+")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_GROUPED = re.compile(r"\b(?:by|without|on)\s*\(([^)]*)\)")
_SUFFIXES = ("_bucket", "_count", "_sum", "_total", "")


def measured() -> dict[str, set[str]]:
    """Return the labels of every metric of agent, gateway and webhook."""
    import_all_modules()
    found: dict[str, set[str]] = {}
    for collector in list(REGISTRY._collector_to_names):
        described = getattr(collector, "describe", collector.collect)()
        for family in described or collector.collect():
            assert isinstance(family, Metric)
            own = set(getattr(family, "_labelnames", getattr(collector, "_labelnames", ())))
            for suffix in _SUFFIXES:
                found[family.name + suffix] = own | ({"le"} if suffix == "_bucket" else set())
    return found


MEASURED = measured()


PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def queries() -> Iterator[tuple[str, str]]:
    """Yield title and expression of every query in dashboard and alerts."""
    for panel in PANELS:
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target["expr"]
    for name, rule in ALERTS.items():
        yield name, rule["expr"]


QUERIES = dict(queries())
EVERY_QUERY = pytest.mark.parametrize("expression", list(QUERIES.values()), ids=list(QUERIES))


@EVERY_QUERY
def test_a_query_asks_for_metrics_and_labels_that_the_code_has(expression: str) -> None:
    for name, selector in _SELECTOR.findall(expression):
        assert set(_LABEL.findall(_STRING.sub('""', selector))) <= MEASURED[name] | OF_PROMETHEUS, name
    asked = set(_NAME.findall(_STRING.sub('""', expression)))
    assert asked
    assert asked <= MEASURED.keys()
    there = OF_PROMETHEUS.union(*(MEASURED[name] for name in asked))
    for labels in _GROUPED.findall(expression):
        assert {label.strip() for label in labels.split(",")} <= there


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: str(panel["title"]))
def test_a_legend_names_what_is_left_of_the_labels(panel: Raw) -> None:
    for target in panel["targets"]:
        grouped = _GROUPED.findall(target["expr"])
        there = {label.strip() for labels in grouped for label in labels.split(",")} or OF_PROMETHEUS
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= there


def test_every_metric_of_ours_is_on_the_dashboard() -> None:
    asked = {name for panel in PANELS for target in panel["targets"] for name in _NAME.findall(target["expr"])}
    families = {metric.name for metric in REGISTRY.collect() if metric.name.startswith("flotilla_")}
    assert {family for family in families if not any(family + suffix in asked for suffix in _SUFFIXES)} == set()


def test_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    everything = DASHBOARD["panels"]
    assert len({panel["id"] for panel in everything}) == len(everything)
    taken: set[tuple[int, int]] = set()
    for panel in everything:
        at = panel["gridPos"]
        cells = set(itertools.product(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])))
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_every_alert_says_what_to_do() -> None:
    for name, rule in ALERTS.items():
        file, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert anchor in anchors(REPOSITORY / file), name
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert {"summary", "description"} <= rule["annotations"].keys()


def test_the_chart_has_both_as_they_are_written_and_only_where_they_are_wanted() -> None:
    objects = template("dashboard.enabled=true", "prometheusRule.enabled=true", "dashboard.namespace=grafana")
    shown = of(objects, "ConfigMap")
    assert json.loads(shown["data"]["flotilla.json"]) == DASHBOARD
    assert shown["metadata"]["namespace"] == "grafana"
    assert shown["metadata"]["labels"]["grafana_dashboard"] == "1"
    (group,) = of(objects, "PrometheusRule")["spec"]["groups"]
    assert {rule["alert"]: rule for rule in group["rules"]} == ALERTS
    assert not {"ConfigMap", "PrometheusRule"} & {each["kind"] for each in template()}


def growing(step: float) -> str:
    """Return promtool's values for a counter that grows by `step` per minute for an hour."""
    return f"0+{step:g}x60"


FIRING: dict[str, tuple[dict[str, str], Raw]] = {
    "FlotillaNoLeader": ({'flotilla_leader{instance="a"}': "0x60", 'flotilla_leader{instance="b"}': "0x60"}, {}),
    "FlotillaNoWebhook": ({}, {}),
    "FlotillaTargetNotReady": ({'flotilla_target_ready{target="default/us"}': "0x60"}, {"target": "default/us"}),
    "FlotillaTargetSlow": ({'flotilla_target_slow{target="default/us"}': "1x60"}, {"target": "default/us"}),
    "FlotillaTargetLost": ({'flotilla_target_lost{target="default/us"}': "1x60"}, {"target": "default/us"}),
    "FlotillaFailoverHeld": ({'flotilla_failover_held{target="default/us"}': "1x60"}, {}),
    "FlotillaTargetFlaps": (
        {'flotilla_target_flaps_total{target="default/us"}': growing(0.1)},
        {"target": "default/us"},
    ),
    "FlotillaGatewayPeerSilent": (
        {
            'flotilla_gateway_peer_addresses{instance="a",peer="shop/us",state="ready"}': "1x10 0x50",
            'flotilla_gateway_peer_addresses{instance="a",peer="shop/us",state="lost"}': "0x10 1x50",
        },
        {"peer": "shop/us"},
    ),
    "FlotillaMovesStuck": (
        {
            'flotilla_moves_waiting{reason="NoRoom"}': "2x60",
            'flotilla_moves_total{cause="Targets",kind="ReplicaSet",outcome="replaced"}': "5x60",
        },
        {},
    ),
    "FlotillaOrphansHeld": ({'flotilla_target_orphans_held{target="default/us"}': "30x60"}, {"target": "default/us"}),
    "FlotillaTokenExpires": (
        {
            'flotilla_target_token_expiry_timestamp_seconds{target="default/us"}': "15000x60",
            'flotilla_target_token_lifetime_seconds{target="default/us"}': "86400x60",
        },
        {"target": "default/us"},
    ),
    "FlotillaPodsWait": ({'flotilla_scheduling_pods_in_flight{instance="a"}': "2x60"}, {}),
    "FlotillaReconcileErrors": (
        {'flotilla_reconciles_total{controller="feedback",outcome="error"}': growing(30)},
        {"controller": "feedback"},
    ),
    "FlotillaQueueGrows": ({'flotilla_queue_depth{controller="follow"}': "2000x60"}, {"controller": "follow"}),
    "FlotillaTaskFails": ({'flotilla_task_failures_total{task="events"}': growing(2)}, {"task": "events"}),
    "FlotillaStandsDown": ({'flotilla_stand_downs_total{instance="a"}': "0x30 1x30"}, {}),
    "FlotillaStandsStill": (
        {'flotilla_reconciles_total{controller="target",outcome="overdue"}': "0x30 1x30"},
        {"controller": "target"},
    ),
    "FlotillaWatchSilent": (
        {'flotilla_watch_silent_seconds{cluster="local",resource="targets"}': "0+60x60"},
        {"cluster": "local", "resource": "targets"},
    ),
    "FlotillaForbidden": (
        {'flotilla_api_requests_total{cluster="default/us",method="GET",resource="secrets",outcome="403"}': growing(1)},
        {"cluster": "default/us", "method": "GET", "resource": "secrets"},
    ),
    "FlotillaUnauthorized": (
        {'flotilla_api_requests_total{cluster="default/us",outcome="401"}': growing(12)},
        {"cluster": "default/us"},
    ),
    "FlotillaApiErrors": (
        {
            'flotilla_api_requests_total{cluster="default/us",outcome="503"}': growing(4),
            'flotilla_api_requests_total{cluster="default/us",outcome="unreachable"}': growing(4),
            'flotilla_api_requests_total{cluster="default/eu",outcome="200"}': growing(100),
        },
        {"cluster": "default/us"},
    ),
    "FlotillaWebhookFails": (
        {
            'flotilla_webhook_requests_total{outcome="failed"}': growing(1),
            'flotilla_webhook_requests_total{outcome="refused"}': growing(100),
        },
        {"outcome": "failed"},
    ),
    "FlotillaWebhookSlow": (
        {
            'flotilla_webhook_seconds_bucket{le="1.0"}': growing(50),
            'flotilla_webhook_seconds_bucket{le="2.5"}': growing(100),
            'flotilla_webhook_seconds_bucket{le="+Inf"}': growing(100),
        },
        {},
    ),
    "FlotillaWebhookCertificateExpires": (
        {"flotilla_webhook_certificate_expiry_timestamp_seconds": "80000x60"},
        {},
    ),
}
"""For each alert: series that make it fire within 40 minutes, and the alert's labels."""

WELL: dict[str, str] = {
    'flotilla_leader{instance="a"}': "1x60",
    'flotilla_leader{instance="b"}': "0x60",
    "flotilla_webhook_seconds_count": "0+60x60",
    'flotilla_target_ready{target="default/us"}': "1x60",
    'flotilla_target_slow{target="default/us"}': "0x60",
    'flotilla_target_orphans_held{target="default/us"}': "0x60",
    # The former leader still exports the expiry of the old token.
    'flotilla_target_token_expiry_timestamp_seconds{instance="a",target="default/us"}': "100000x60",
    'flotilla_target_token_lifetime_seconds{instance="a",target="default/us"}': "604800x60",
    'flotilla_target_token_expiry_timestamp_seconds{instance="b",target="default/us"}': "600000x60",
    'flotilla_target_token_lifetime_seconds{instance="b",target="default/us"}': "604800x60",
    'flotilla_scheduling_pods_in_flight{instance="a"}': "3x10 0x50",
    'flotilla_reconciles_total{controller="feedback",outcome="conflict"}': "0+30x60",
    'flotilla_reconciles_total{controller="feedback",outcome="overdue"}': "0x60",
    'flotilla_stand_downs_total{instance="a"}': "0x60",
    'flotilla_watch_silent_seconds{cluster="local",resource="targets"}': "60x60",
    'flotilla_api_requests_total{cluster="default/us",outcome="404"}': "0+90x60",
    'flotilla_webhook_requests_total{outcome="refused"}': "0+100x60",
    'flotilla_webhook_seconds_bucket{le="1.0"}': "0+60x60",
    'flotilla_webhook_seconds_bucket{le="+Inf"}': "0+60x60",
    "flotilla_webhook_certificate_expiry_timestamp_seconds": "6000000x60",
    'flotilla_target_lost{target="default/us"}': "0x60",
    'flotilla_failover_held{target="default/us"}': "0x60",
    'flotilla_target_flaps_total{target="default/us"}': "0x30 1x30",
    # A single gateway pod that reaches the peer is enough. No gateway calls a peer without addresses.
    'flotilla_gateway_peer_addresses{instance="a",peer="shop/us",state="ready"}': "0x60",
    'flotilla_gateway_peer_addresses{instance="a",peer="shop/us",state="lost"}': "1x60",
    'flotilla_gateway_peer_addresses{instance="b",peer="shop/us",state="ready"}': "1x60",
    'flotilla_gateway_peer_addresses{instance="b",peer="shop/us",state="lost"}': "0x60",
    'flotilla_gateway_peer_addresses{instance="a",peer="shop/eu",state="ready"}': "0x60",
    'flotilla_gateway_peer_addresses{instance="a",peer="shop/eu",state="lost"}': "0x60",
    'flotilla_moves_waiting{reason="Held"}': "3x60",
    'flotilla_moves_waiting{reason="Misplaced"}': "200x60",
    'flotilla_moves_total{cause="Targets",kind="ReplicaSet",outcome="replaced"}': growing(1),
}
"""Series of a healthy installation."""


def test_each_alert_fires_when_it_should_and_none_where_all_is_well(tmp_path: Path) -> None:
    assert FIRING.keys() == ALERTS.keys()
    cases = [case("ALERTS{alertstate='firing'}", WELL, [])]
    for name, (series, labels) in FIRING.items():
        shown = {"alertname": name, "alertstate": "firing", "severity": ALERTS[name]["labels"]["severity"], **labels}
        pairs = ", ".join(f'{label}="{value}"' for label, value in shown.items())
        want = {"labels": f"ALERTS{{{pairs}}}", "value": 1}
        cases.append(case(f"ALERTS{{alertname='{name}', alertstate='firing'}}", series, [want]))
    rules = str(CHART / "files/alerts.yaml")
    (tmp_path / "tests.yaml").write_text(json.dumps({"rule_files": [rules], "tests": cases}))
    assert "SUCCESS" in promtool("check", "rules", rules, folder=tmp_path)
    assert "SUCCESS" in promtool("test", "rules", "tests.yaml", folder=tmp_path)


def case(expression: str, series: dict[str, str], want: list[Raw]) -> Raw:
    """Return a unit test for promtool: the samples of an expression after 45 minutes of these series."""
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": expression, "eval_time": "45m", "exp_samples": want}],
    }
