"""Services that pods in targets mention but cannot find in their cluster."""

from dataclasses import replace
from typing import Any

from agent.cli.checks import lookup
from agent.cli.checks.finding import Level
from tests.cli.test_checks import target, view

HERE = frozenset({("default", "db"), ("default", "web"), ("other", "db"), ("default", "kubernetes")})


def pod(name: str, host: str, node: str = "admiralty-default-us") -> dict[str, Any]:
    container = {"name": "main", "env": [{"name": "DB_HOST", "value": host}]}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"nodeName": node, "containers": [container]}}


def test_a_service_that_a_target_does_not_have_is_named_once_with_the_pods_and_the_remedy() -> None:
    pods = tuple(pod(f"app-{number}", "db:5432") for number in range(5))
    us = replace(target(), services=frozenset({("default", "web")}))
    (finding,) = lookup.services(view(targets=(us,), proxies=pods, services=HERE))
    assert (finding.level, finding.about) == (Level.WARN, "Service default/db")
    assert "target default/us does not have it" in finding.what
    assert finding.what.endswith("app-0, app-1, app-2 and 2 more")
    assert "kubectl annotate namespace default multicluster/share-services=true" in finding.remedy


def test_all_is_well_where_targets_have_it_and_nothing_is_said_where_nobody_can_tell() -> None:
    us = replace(target(), services=frozenset({("default", "db")}))
    found = pod("app", "db"), pod("far", "db.other"), pod("api", "kubernetes.default"), pod("new", "web", "")
    (finding,) = lookup.services(view(targets=(us,), proxies=found, services=HERE))
    assert finding.level is Level.OK
    assert list(lookup.services(view(targets=(us,), proxies=None, services=HERE))) == []
    assert list(lookup.services(view(targets=(us,), proxies=(), services=HERE))) == []
    unread = replace(us, services=None)
    assert list(lookup.services(view(targets=(unread,), proxies=found, services=HERE))) == []
