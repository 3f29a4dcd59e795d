"""Bounds on the search of an application for the Services that it calls."""

from collections.abc import Callable

import pytest

from agent.applications.plan import calls_of, searched_of, unsearched
from agent.model.p2code import index as searching_index
from agent.model.p2code import search as searching
from agent.model.p2code.check import Draft, draft
from agent.model.p2code.detect import CALLS, Book, calls
from agent.model.p2code.manifests import read
from agent.model.p2code.search import HOSTS, TEXT, VARIABLES, search
from agent.model.p2code.status import CALLS_KNOWN
from tests.model.applications import Raw, container, manifest, spec_of, workload

BACKEND = manifest("Service", "backend", spec={"ports": [{"port": 8080}]})


def containers(count: int, **fields: object) -> Raw:
    return {"containers": [{"name": f"c{number}", "image": "i", **fields} for number in range(count)]}


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the texts that were searched for addresses."""
    found: list[str] = []
    addresses = searching._addresses

    def counted(said: str) -> object:
        found.append(said)
        return addresses(said)

    monkeypatch.setattr(searching, "_addresses", counted)
    return found


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_a_source_is_searched_once_however_many_containers_and_workloads_have_it(kind: str, scanned: list[str]) -> None:
    field = "data" if kind == "ConfigMap" else "stringData"
    source = manifest(kind, "settings", **{field: {"url": "http://backend:8080", "port": "1"}})
    reference = f"{kind[0].lower()}{kind[1:]}Ref"
    many = containers(20, envFrom=[{reference: {"name": "settings"}}])
    manifests = read([workload("web", spec=many), workload("api", spec=many), BACKEND, source]).manifests
    book = Book(manifests, {})
    for each in manifests[:2]:
        assert [str(call) for call in calls(each, book)] == ["demo/backend:8080"]
    assert sorted(scanned) == ["1", "http://backend:8080"]


def test_calls_are_looked_up_again_without_a_search_when_services_change(scanned: list[str]) -> None:
    spec = spec_of(workload("web", spec=container(args=["old:80"])), own=[{"name": "web"}])
    drafted = draft(spec, "shop", "global")
    searched = searched_of(drafted)
    assert not calls_of(drafted, {}, searched).of["web"]
    assert calls_of(drafted, {("demo", "old"): frozenset((80,))}, searched).of["web"]
    assert scanned == ["old:80"]


def large(**fields: object) -> Raw:
    return container(env=[{"name": "A", "value": "backend:8080"}], **fields)


@pytest.mark.parametrize(
    ("spec", "more", "bound"),
    [
        pytest.param(large(args=["x" * (TEXT + 1)]), (), f"more than {TEXT} characters", id="text"),
        pytest.param(large(args=["x" * (TEXT // 2)] * 3), (), f"more than {TEXT} characters", id="much text"),
        pytest.param(
            containers(60, envFrom=[{"configMapRef": {"name": "settings"}}]),
            (manifest("ConfigMap", "settings", data={f"k{number}": "" for number in range(1000)}),),
            f"more than {VARIABLES} environment variables",
            id="variables",
        ),
        pytest.param(
            container(args=[f"h{number}:80" for number in range(HOSTS + 1)]),
            (),
            f"more than {HOSTS} different hosts",
            id="hosts",
        ),
    ],
)
def test_a_workload_with_too_much_to_search_is_named_and_the_others_are_searched(
    spec: Raw, more: tuple[Raw, ...], bound: str
) -> None:
    small = workload("api", spec=container(args=["backend:8080"]))
    found = search(read([workload("web", spec=spec), small, *more]).manifests)
    assert [str(each) for each in found.unsearched] == ["Deployment demo/web"]
    assert all(why.startswith(bound) for why in found.unsearched.values())
    assert [str(each) for each in found.hosts] == ["Deployment demo/api"]


def test_what_its_author_names_counts_where_too_much_is_to_be_searched_and_a_condition_tells_of_that() -> None:
    web = workload("web", spec=container(args=["x" * (TEXT + 1)]))
    web["metadata"]["annotations"] = {"multicluster/depends-on": "backend"}
    found = calls_of(draft(spec_of(web, BACKEND, own=[{"name": "web"}]), "shop", "global"), {})
    assert [str(call) for call in found.of["web"]] == ["demo/backend:8080"]
    told = unsearched(found.unknown)
    assert (told.type, told.reason, told.status) == (CALLS_KNOWN, "TooMuchToSearch", "False")
    assert told.message.startswith(
        "not all Services are known that these workloads call: Deployment demo/web: more than 1048576 characters in "
        "environment variables, commands and arguments: "
    )
    assert "multicluster/depends-on" in told.message
    assert not unsearched({}).reason


def test_calls_are_bounded_and_the_workload_that_has_too_many_is_named() -> None:
    many = manifest("Service", "many", spec={"ports": [{"port": port} for port in range(1, CALLS + 2)]})
    web, api = workload("web"), workload("api", spec=container(args=["backend:8080"]))
    web["metadata"]["annotations"] = {"multicluster/depends-on": "many"}
    found = calls_of(draft(spec_of(web, api, many, BACKEND, own=[{"name": "web"}]), "shop", "global"), {})
    assert {name: len(its) for name, its in found.of.items()} == {"web": 0, "api": 1}
    assert found.unknown == {"Deployment demo/web": f"more than {CALLS} calls"}


def test_a_port_of_many_digits_is_none() -> None:
    spec = container(env=[{"name": "A_HOST", "value": "backend"}, {"name": "A_PORT", "value": "9" * 5000}])
    manifests = read([workload("web", spec=spec), BACKEND]).manifests
    assert calls(manifests[0], Book(manifests, {})) == ()


def rejected(*manifests: Raw) -> str:
    found: Draft = draft(spec_of(*manifests, own=[{"name": "web"}]), "shop", "global")
    assert found.manifested is not None
    return found.manifested.message


def pods(count: int) -> list[Raw]:
    labelled = {"metadata": {"labels": {"app": "web"}}}
    return [
        manifest("Deployment", "web" if not number else f"w{number}", spec={"template": labelled})
        for number in range(count)
    ]


TERMS = [{"key": f"k{number}", "operator": "DoesNotExist"} for number in range(10_000)]


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        pytest.param(lambda: pods(1001), "spec.manifests has 1001 objects, of at most 1000", id="objects"),
        pytest.param(
            lambda: [*pods(300), manifest("NetworkPolicy", spec={"podSelector": {"matchExpressions": TERMS}})],
            "more than 2000000 comparisons are needed",
            id="long selectors",
        ),
        pytest.param(
            lambda: pods(300) + [manifest("Service", f"s{n}", spec={"selector": {"app": "web"}}) for n in range(300)],
            "have more than 50000 objects",
            id="everything belongs to everything",
        ),
    ],
)
def test_an_application_whose_bundles_take_too_long_is_refused_with_the_bound(
    made: Callable[[], list[Raw]], wanted: str
) -> None:
    message = rejected(*made())
    assert wanted in message
    assert "split the application" in message


def test_a_service_is_compared_with_the_workloads_that_have_its_label_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    selects = searching_index._selects
    monkeypatch.setattr(
        searching_index, "_selects", lambda each, labels: compared.append(each.name) or selects(each, labels)
    )
    services = [manifest("Service", f"w{number}", spec={"selector": {"app": f"w{number}"}}) for number in range(50)]
    found = draft(
        spec_of(*(workload(f"w{number}") for number in range(50)), *services, own=[{"name": "w0"}]), "s", "and"
    )
    assert found.application is not None
    assert [len(each.manifests) for each in found.application.bundling.bundles] == [2] * 50
    assert sorted(compared) == sorted(f"w{number}" for number in range(50))
