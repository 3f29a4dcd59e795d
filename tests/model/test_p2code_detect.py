"""Services that the pods of an application call."""

import base64

import pytest

from agent.model.p2code.detect import Book, calls, ports
from agent.model.p2code.manifests import read
from tests.model.applications import Raw, container, manifest, workload


def service(name: str = "backend", namespace: str = "demo", *ports: int) -> Raw:
    return manifest("Service", name, namespace, spec={"ports": [{"port": port} for port in ports or (8080,)]})


OTHERS = [
    service(),
    service("db", "demo", 5432),
    service("api", "other", 80, 443),
    service("queue", "demo", 5672),
    service("twin", "a", 1),
    service("twin", "b", 1),
]
LIVE = {("other", "live"): frozenset((9000,)), ("demo", "api"): frozenset((80,))}


def called(caller: Raw, *more: Raw, annotations: Raw | None = None) -> list[str]:
    caller["metadata"]["annotations"] = annotations or {}
    manifests = read([caller, *OTHERS, *more]).manifests
    return [str(each) for each in calls(manifests[0], Book(manifests, LIVE))]


def env(**variables: str) -> Raw:
    return container(env=[{"name": name, "value": value} for name, value in variables.items()])


VALUES = {
    "as P2CODE's scheduler has it": ("backend:8080", ["demo/backend:8080"]),
    "with slashes": ("//backend:8080", ["demo/backend:8080"]),
    "URL": ("http://backend:8080/path?x=1", ["demo/backend:8080"]),
    "URL with a user": ("postgresql://user:secret@db:5432/app", ["demo/db:5432"]),
    "URL without port": ("https://api.other/", ["other/api:443"]),
    "JDBC": ("jdbc:postgresql://db/app", ["demo/db:5432"]),
    "name and namespace": ("api.other:80", ["other/api:80"]),
    "without port": ("api.other", ["other/api:80", "other/api:443"]),
    "service domain": ("api.other.svc:443", ["other/api:443"]),
    "whole domain": ("http://api.other.svc.cluster.local", ["other/api:80"]),
    "a pod of a stateful set": ("db-0.db:5432", ["demo/db:5432"]),
    "the same, whole": ("db-0.db.demo.svc.cluster.local:5432", ["demo/db:5432"]),
    "several": ("backend:8080,db:5432", ["demo/backend:8080", "demo/db:5432"]),
    "upper case": ("Backend:8080", ["demo/backend:8080"]),
    "in a DSN": ("host=db:5432 user=x", ["demo/db:5432"]),
    "live": ("live.other:9000", ["other/live:9000"]),
    "its own namespace first": ("api:80", ["demo/api:80"]),
    "the only one of that name": ("queue:5672", ["demo/queue:5672"]),
    "one of two of that name": ("twin:1", []),
    "another port": ("backend:99", []),
    "no such service": ("nobody:8080", []),
    "an address": ("10.0.0.1:8080", []),
    "a word": ("backend", []),
    "a time": ("12:30", []),
    "no number": ("backend:http", []),
    "a path behind": ("backend:8080/0", ["demo/backend:8080"]),
    "newline": ("backend:8080\n", ["demo/backend:8080"]),
    "a port out of range": ("backend:99999", []),
}


@pytest.mark.parametrize("rule", VALUES)
def test_an_address_counts_where_there_is_a_service(rule: str) -> None:
    value, wanted = VALUES[rule]
    assert called(workload(spec=env(ADDRESS=value))) == wanted


def test_a_name_alone_is_found_in_the_only_namespace_that_has_it() -> None:
    assert called(workload(namespace="third", spec=env(A="backend:8080"))) == ["demo/backend:8080"]


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({"QUEUE_HOST": "queue", "QUEUE_PORT": "5672"}, ["demo/queue:5672"]),
        ({"QUEUE_HOST": "queue", "QUEUE_PORT": "1"}, []),
        ({"QUEUE_HOST": "queue"}, []),
        ({"QUEUE_HOST": "queue", "OTHER_PORT": "5672"}, []),
        ({"API_HOST": "api.other", "API_PORT": "80"}, ["other/api:80"]),
    ],
)
def test_host_and_port_may_be_two_variables(variables: dict[str, str], wanted: list[str]) -> None:
    assert called(workload(spec=env(**variables))) == wanted


CONFIG = manifest("ConfigMap", "settings", data={"url": "http://backend:8080", "other": "db:5432"})
SECRET = manifest("Secret", "keys", data={"dsn": base64.b64encode(b"postgres://u:p@db/x").decode(), "bad": "%%"})
PLAIN = manifest("Secret", "keys", stringData={"dsn": "postgres://u:p@db/x"})


def by_key(kind: str, name: str, key: str) -> Raw:
    return container(env=[{"name": "A", "valueFrom": {kind: {"name": name, "key": key}}}])


@pytest.mark.parametrize(
    ("spec", "source", "wanted"),
    [
        (by_key("configMapKeyRef", "settings", "url"), CONFIG, ["demo/backend:8080"]),
        (by_key("secretKeyRef", "keys", "dsn"), SECRET, ["demo/db:5432"]),
        (by_key("secretKeyRef", "keys", "dsn"), PLAIN, ["demo/db:5432"]),
        (by_key("secretKeyRef", "keys", "bad"), SECRET, []),
        (by_key("configMapKeyRef", "settings", "nothing"), CONFIG, []),
        (by_key("configMapKeyRef", "nobody", "url"), CONFIG, []),
        (
            container(envFrom=[{"configMapRef": {"name": "settings"}}]),
            CONFIG,
            ["demo/backend:8080", "demo/db:5432"],
        ),
        (container(envFrom=[{"secretRef": {"name": "keys"}}]), SECRET, ["demo/db:5432"]),
        (container(args=["--backend=backend:8080"]), CONFIG, ["demo/backend:8080"]),
        (container(command=["sh", "-c", "wget http://backend:8080/ -O -"]), CONFIG, ["demo/backend:8080"]),
        (container(image="backend:8080"), CONFIG, []),
        ({"initContainers": env(A="backend:8080")["containers"]}, CONFIG, ["demo/backend:8080"]),
    ],
)
def test_values_are_found_wherever_pods_are_told_of_them(spec: Raw, source: Raw, wanted: list[str]) -> None:
    assert called(workload(spec=spec), source) == wanted


@pytest.mark.parametrize("kind", ["Pod", "CronJob", "StatefulSet"])
def test_every_kind_of_workload_is_looked_at(kind: str) -> None:
    assert called(workload(kind=kind, spec=env(A="backend:8080"))) == ["demo/backend:8080"]


@pytest.mark.parametrize(
    ("annotations", "wanted"),
    [
        ({"multicluster/depends-on": "other/api:80"}, ["demo/backend:8080", "demo/db:5432", "other/api:80"]),
        ({"multicluster/depends-on": "queue"}, ["demo/backend:8080", "demo/db:5432", "demo/queue:5672"]),
        ({"multicluster/depends-on": "far/away:1"}, ["demo/backend:8080", "demo/db:5432", "far/away:1"]),
        ({"multicluster.admiralty.io/ignore-links": "demo/db"}, ["demo/backend:8080"]),
        ({"multicluster/ignore-links": "db:5432, backend:1"}, ["demo/backend:8080"]),
        ({"multicluster/ignore-links": "*"}, []),
    ],
)
def test_annotations_add_and_take_away(annotations: Raw, wanted: list[str]) -> None:
    assert called(workload(spec=env(A="backend:8080", B="db:5432")), annotations=annotations) == wanted


def test_ports_that_are_none_do_not_count() -> None:
    assert ports({"spec": {"ports": [{"port": 80}, {"port": "81"}, {}, 7]}}) == {80}
