"""Counts of an agent's writes, read from its metrics."""

from prometheus_client import generate_latest

from agent.base.metrics import REGISTRY, REQUESTS
from hack.lab.benchmarks import counters

EXPOSITION = """\
# HELP flotilla_api_requests_total Requests to API servers by outcome.
# TYPE flotilla_api_requests_total counter
flotilla_api_requests_total{cluster="local",method="GET",outcome="200",resource="pods"} 7.0
flotilla_api_requests_total{cluster="local",method="PATCH",outcome="200",resource="pods/status"} 4.0
flotilla_api_requests_total{cluster="us",method="POST",outcome="201",resource="podchaperons"} 2.0
flotilla_api_requests_total{cluster="eu",method="POST",outcome="201",resource="podchaperons"} 1.0
flotilla_api_requests_total{cluster="eu",method="POST",outcome="409",resource="podchaperons"} 1.0
flotilla_api_requests_total{cluster="local",method="POST",outcome="201",resource="events"} 9.0
flotilla_api_requests_total{cluster="local",method="PATCH",outcome="200",resource="leases"} 5.0
flotilla_api_requests_total{cluster="local",method="POST",outcome="201",resource=""} 1.0
flotilla_api_requests_created{cluster="local",method="PATCH",outcome="200",resource="pods"} 1.7e9
# TYPE flotilla_reconciles_total counter
flotilla_reconciles_total{controller="feedback",outcome="done"} 3.0
"""


def test_writes_of_all_clusters_are_added_up_and_reads_are_not_among_them() -> None:
    assert counters.writes(EXPOSITION, "source") == {
        "source PATCH pods/status 200": 4.0,
        "source POST podchaperons 201": 3.0,
        "source POST podchaperons 409": 1.0,
        "source POST events 201": 9.0,
        "source PATCH leases 200": 5.0,
        "source POST other 201": 1.0,
    }


def test_events_and_leases_are_kept_apart() -> None:
    assert counters.counted(counters.writes(EXPOSITION, "source")) == 9.0


def test_refused_writes_count_and_are_told() -> None:
    assert counters.failed(counters.writes(EXPOSITION, "source")) == 1.0


def test_outcomes_are_added_up_by_resource() -> None:
    totals = counters.by_resource(counters.writes(EXPOSITION, "source"))
    assert totals["source POST podchaperons"] == 4.0
    assert totals["source PATCH pods/status"] == 4.0


def test_the_metric_that_agents_publish_is_the_one_that_is_read() -> None:
    counter = REQUESTS.labels("local", "DELETE", "bench-test", "200")
    before = counters.writes(generate_latest(REGISTRY).decode(), "x").get("x DELETE bench-test 200", 0.0)
    counter.inc()
    after = counters.writes(generate_latest(REGISTRY).decode(), "x")["x DELETE bench-test 200"]
    assert after == before + 1


def test_accepted_writes_of_an_api_server_are_counted_by_resource() -> None:
    series = (
        ('code="201",dry_run="",resource="pods",subresource="",verb="POST"', 3),
        ('code="200",dry_run="",resource="pods",subresource="status",verb="PATCH"', 2),
        ('code="409",dry_run="",resource="pods",subresource="",verb="PUT"', 1),
        ('code="201",dry_run="All",resource="pods",subresource="",verb="POST"', 1),
        ('code="200",dry_run="",resource="endpoints",subresource="",verb="GET"', 9),
        ('code="200",dry_run="",resource="endpoints",subresource="",verb="PUT"', 4),
    )
    lines = [f"apiserver_request_total{{{labels}}} {value}" for labels, value in series]
    assert counters.accepted("\n".join(["# TYPE apiserver_request_total counter", *lines])) == {
        "pods": 5.0,
        "endpoints": 4.0,
    }
