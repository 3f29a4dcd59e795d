"""Parsing of Prometheus' answers, and the scores that clusters get from them."""

import json
from typing import Any

import pytest

from agent.model import promscore
from agent.model.promscore import PrometheusScore
from agent.placement.prometheus_scores.decide import BadAnswer, QueryResult, decide, read_answer

Raw = dict[str, Any]


def score(name: str = "latency", **fields: Any) -> PrometheusScore:
    given = {"name": name, "resource": "slo", "url": "http://prometheus:9090", "query": "x", "min": 0, "max": 200}
    (found,) = promscore.read(json.dumps([{**given, "interval": "30s", **fields}]))
    return found


def series(cluster: str | None, value: str, **labels: str) -> Raw:
    metric = {**labels, **({"cluster": cluster} if cluster is not None else {})}
    return {"metric": metric, "value": [1767268800.123, value]}


def answer(*found: Raw, kind: str = "vector") -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": list(found)}}).encode()


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param("0", -100, id="the lowest"),
        pytest.param("200", 100, id="the highest"),
        pytest.param("100", 0, id="between them"),
        pytest.param("50", -50, id="a quarter"),
        pytest.param("99.5", 0, id="-0.5 is cut off toward zero"),
        pytest.param("1.5", -98, id="-98.5 is cut off toward zero"),
        pytest.param("1e9", 100, id="beyond the highest"),
        pytest.param("-3", -100, id="below the lowest"),
        pytest.param("+Inf", 100, id="infinite"),
        pytest.param("-Inf", -100, id="infinite, below"),
        pytest.param("NaN", None, id="no number"),
        pytest.param("many", None, id="a word"),
    ],
)
def test_a_value_is_scaled_between_its_bounds(value: str, want: int | None) -> None:
    assert read_answer(answer(series("eu", value)), 200, score()).get("eu") == want


def test_bounds_may_be_fractions_and_below_zero() -> None:
    found = read_answer(answer(series("eu", "0.8"), series("us", "0.1")), 200, score(min=-0.2, max=1.8))
    assert found == {"eu": 0, "us": -70}


def test_the_label_says_which_cluster_a_series_is_of_and_one_without_it_is_of_none() -> None:
    found = read_answer(
        answer(series("ignored", "200", site="eu"), series("ignored", "0")), 200, score(clusterLabel="site")
    )
    assert found == {"eu": 100}
    assert read_answer(answer(), 200, score()) == {}


@pytest.mark.parametrize(
    ("body", "status", "want"),
    [
        pytest.param(
            b'{"status":"error","errorType":"bad_data","error":"1:4: parse error"}',
            400,
            "Prometheus says bad_data: 1:4: parse error",
            id="a query that is none",
        ),
        pytest.param(b"<html>Log in</html>", 200, "not an answer of Prometheus: correct the url", id="a login page"),
        pytest.param(b"", 404, "HTTP status 404", id="nothing"),
        pytest.param(b"{}", 502, "HTTP status 502: is http://prometheus:9090 a Prometheus?", id="a proxy"),
        pytest.param(b"[" * 100_000, 200, "not an answer of Prometheus", id="nested too deep"),
        pytest.param(answer(kind="matrix"), 200, "gives a matrix instead of a vector", id="a range"),
        pytest.param(
            b'{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}',
            200,
            "gives a scalar",
            id="a number",
        ),
        pytest.param(answer(series(None, "1")), 200, "no series has the label cluster", id="no label"),
        pytest.param(
            answer(series("eu", "1", pod="a"), series("eu", "2", pod="b")),
            200,
            r"several series have cluster=eu: aggregate by \(cluster\)",
            id="not aggregated",
        ),
    ],
)
def test_what_gives_no_scores_says_why_and_what_to_do(body: bytes, status: int, want: str) -> None:
    with pytest.raises(BadAnswer, match=want):
        read_answer(body, status, score())


def test_a_histogram_beside_numbers_is_no_score() -> None:
    histogram = {"metric": {"cluster": "us"}, "histogram": [1767268800, {"count": "1", "sum": "1"}]}
    assert read_answer(answer(series("eu", "100"), histogram), 200, score()) == {"eu": 0}


LATENCY, ERRORS = (QueryResult(score(name), 1000.0) for name in ("latency", "errors"))


def test_before_all_of_its_queries_were_asked_nothing_is_said() -> None:
    assert decide("eu", [LATENCY], {}, 1000) is None
    assert decide("eu", [LATENCY.answered({"eu": 1}, 1001), ERRORS], {}, 1001) is None


def test_scores_of_one_object_come_from_several_queries() -> None:
    asked = [LATENCY.answered({"eu": 10, "us": 1}, 1001), ERRORS.answered({"eu": -5}, 1011)]
    found = decide("eu", asked, {"old": 3}, 1021)
    assert found is not None
    assert (found.scores, found.status, found.validity, found.age) == ({"latency": 10, "errors": -5}, "True", 90, 20)


def test_a_series_that_is_missing_loses_its_score() -> None:
    asked = [LATENCY.answered({"eu": 10, "us": 1}, 1001), ERRORS.answered({"eu": -5}, 1011)]
    found = decide("us", asked, {"errors": 50}, 1021)
    assert found is not None
    assert (found.scores, found.status, found.reason) == ({"latency": 1}, "False", "NoSeries")
    assert found.message == "there is no series of this cluster for errors"
    nowhere = decide("ap", asked, {}, 1021)
    assert nowhere is not None
    assert (nowhere.scores, nowhere.made) == ({}, True)


def test_a_value_counts_for_three_intervals_after_the_last_answer() -> None:
    asked = [LATENCY.answered({"eu": 10}, 1000).failed("HTTP status 503")]
    for now, scores in ((1089, {"latency": 10}), (1090, {})):
        found = decide("eu", asked, {}, now)
        assert found is not None
        assert (found.scores, found.reason, found.message) == (scores, "QueryFailed", "latency: HTTP status 503")


def test_what_was_told_before_a_restart_stays_for_as_long_and_is_not_renewed() -> None:
    failed = [LATENCY.failed("no answer")]
    found = decide("eu", failed, {"latency": 7, "old": 1}, 1089)
    assert found is not None
    assert (found.scores, found.age) == ({"latency": 7}, float("inf"))
    gone = decide("eu", failed, {"latency": 7}, 1090)
    assert gone is not None
    assert gone.scores == {}


def test_an_answer_after_failures_makes_all_well() -> None:
    found = decide("eu", [LATENCY.failed("no answer").answered({"eu": 3}, 1050)], {}, 1050)
    assert found is not None
    assert (found.scores, found.status, found.reason) == ({"latency": 3}, "True", "Updated")
