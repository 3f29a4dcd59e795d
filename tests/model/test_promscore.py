"""Prometheus scores in an administrator's list: accepted entries, and the errors for rejected entries."""

from typing import Any

import pytest
import yaml

from agent.model.promscore import InvalidPrometheusScores, PrometheusScore, SecretKey, read

LEAST = {"name": "latency", "resource": "net", "url": "https://prometheus.example.test", "query": "up", "max": 1}


def one(**fields: Any) -> PrometheusScore:
    (found,) = read(yaml.safe_dump([LEAST | fields]))
    return found


def test_what_is_not_said_has_a_default() -> None:
    found = one()
    assert (found.name, found.resource, found.query, found.cluster_label) == ("latency", "net", "up", "cluster")
    assert (found.lowest, found.highest, found.interval) == (0.0, 1.0, 30.0)
    assert (found.token, found.ca_bundle) == (None, "")


def test_all_of_it_is_read() -> None:
    found = one(
        url="http://thanos.example.test:9090/query/",
        clusterLabel="managed_cluster",
        min=-0.5,
        interval="1m30s",
    )
    assert (found.url, found.cluster_label) == ("http://thanos.example.test:9090/query", "managed_cluster")
    assert (found.lowest, found.interval) == (-0.5, 90.0)
    assert one(tokenSecret={"name": "s"}).token == SecretKey("s", "token")
    assert one(tokenSecret={"name": "s", "key": "k"}, caBundle="PEM").token == SecretKey("s", "k")


def test_nothing_is_a_list_without_scores() -> None:
    assert read("") == read("[]") == read("# none yet") == ()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": None}, r"\[0\].name: is missing: add it"),
        ({"name": " "}, r"\[0\].name: must be text"),
        ({"name": 5}, r"\[0\].name: must be text, not 5: put it into quotes"),
        ({"resource": "Net"}, r"\[0\].resource: 'Net' can be no AddOnPlacementScore's name: lower-case"),
        ({"resource": "resource-usage-score"}, r"\[0\].resource: .*scores of usage: choose another name"),
        ({"url": "prometheus:9090"}, r"\[0\].url: 'prometheus:9090' must be http\(s\)://HOST"),
        ({"url": "http://[p"}, r"\[0\].url: .* must be http"),
        ({"url": "http://p:port"}, r"\[0\].url: .* must be http"),
        ({"url": "http://p?x=1"}, r"\[0\].url: .* must be http"),
        ({"url": "https://me:secret@p"}, r"\[0\].url: must not hold credentials: .*tokenSecret"),
        ({"query": None}, r"\[0\].query: is missing"),
        ({"clusterLabel": "a-b"}, r"\[0\].clusterLabel: 'a-b' can be no label of a series"),
        ({"max": None}, r"\[0\].max: is missing"),
        ({"max": "1"}, r"\[0\].max: must be a number, not '1'"),
        ({"max": True}, r"\[0\].max: must be a number"),
        ({"min": 1}, r"\[0\].max: must be more than min, 1.*swap them"),
        ({"interval": "soon"}, r"\[0\].interval: 'soon' must be a duration"),
        ({"interval": "100ms"}, r"\[0\].interval: must be 1s at least, not 100ms"),
        ({"tokenSecret": "s"}, r"\[0\].tokenSecret: must be \{name: SECRET, key: KEY\}"),
        ({"tokenSecret": {"name": "s", "namespace": "x"}}, r"\[0\].tokenSecret: must be"),
        ({"tokenSecret": {"name": "s"}, "url": "http://p"}, r"\[0\].tokenSecret: is for https only.*http://p"),
        ({"caBundle": "PEM", "url": "http://p"}, r"\[0\].caBundle: is for https only"),
        ({"cluster_label": "x"}, r"\[0\].cluster_label: there is no such field: it has name, resource"),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_named_with_the_remedy(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidPrometheusScores, match=message):
        one(**fields)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x", "must be a list of 100 scores at most"),
        ("- x", r"\[0\]: must be an object with name"),
        ("[", "is no YAML"),
        (yaml.safe_dump([LEAST] * 101), "must be a list of 100 scores at most"),
        (
            yaml.safe_dump([dict(LEAST), dict(LEAST)]),
            r"\[1\].name: latency of resource net is in \[0\] already: rename",
        ),
    ],
    ids=lambda text: text[:20],
)
def test_a_list_that_cannot_be_used_is_no_list(text: str, message: str) -> None:
    with pytest.raises(InvalidPrometheusScores, match=message):
        read(text)
