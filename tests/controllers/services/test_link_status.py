"""Status of a ServiceLink: conditions, rows, and the name for callers."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from agent.api.conditions import is_true
from agent.model.servicelinks import READY, Finding, Pair
from agent.services.links.status import Offered, status

NOW = datetime(2026, 11, 25, tzinfo=UTC)
FOUR = Offered(4)
GOOD = Finding("True", "Accepted")
DONE, WORKS = Finding("True", "Programmed"), Finding("True", "Connected", "its agent answers")
UNVERIFIED = Finding("Unknown", "Unverified", "nobody has measured it")
PENDING, NO_PATH = Finding("False", "Pending", "not yet"), Finding("False", "NoPath", "networks overlap")
AWAY = Finding("False", "TargetUnreachable", "no answer")
SILENT = Finding("Unknown", "TargetUnreachable", "no answer")


def link(name: str = "web", **spec: Any) -> Any:
    return {"metadata": {"name": name, "namespace": "shop", "generation": 2}, "spec": spec}


def pair(
    consumer: str, source: str, connected: Finding = WORKS, programmed: Finding = DONE, driver: str = "endpointslices"
) -> Pair:
    return Pair(consumer, source, driver, programmed, connected, 2)


def told(pairs: list[Pair], good: Finding = GOOD, total: int = 4) -> dict[str, tuple[str, str]]:
    found = status(link(), good, pairs, Offered(total), NOW)
    return {each["type"]: (each["status"], each["reason"]) for each in found["conditions"]}


@pytest.mark.parametrize(
    ("pairs", "total", "programmed", "connected", "ready"),
    [
        ([], 4, ("True", "Programmed"), ("True", "Connected"), ("True", "Ready")),
        ([], 0, ("True", "Programmed"), ("False", "NoEndpoints"), ("False", "NoEndpoints")),
        ([pair("us", "eu")], 4, ("True", "Programmed"), ("True", "Connected"), ("True", "Ready")),
        # An unmeasured pair counts as ready, with a note.
        (
            [pair("us", "eu", UNVERIFIED), pair("hub", "eu")],
            4,
            ("True", "Programmed"),
            ("Unknown", "Unverified"),
            ("True", "Ready"),
        ),
        (
            [pair("us", "eu", UNVERIFIED), pair("us", "hub", SILENT)],
            4,
            ("True", "Programmed"),
            ("Unknown", "TargetUnreachable"),
            ("Unknown", "TargetUnreachable"),
        ),
        (
            [pair("us", "eu", SILENT), pair("us", "hub", NO_PATH, driver="")],
            4,
            ("True", "Programmed"),
            ("False", "NoPath"),
            ("False", "NoPath"),
        ),
        # The first false condition is the one to examine.
        (
            [pair("us", "eu", NO_PATH), pair("hub", "eu", WORKS, AWAY)],
            4,
            ("False", "TargetUnreachable"),
            ("False", "NoPath"),
            ("False", "TargetUnreachable"),
        ),
        ([pair("us", "eu", WORKS, PENDING)], 4, ("False", "Pending"), ("True", "Connected"), ("False", "Pending")),
    ],
)
def test_conditions_are_what_is_worst_of_all_pairs(
    pairs: list[Pair],
    total: int,
    programmed: tuple[str, str],
    connected: tuple[str, str],
    ready: tuple[str, str],
) -> None:
    assert told(pairs, total=total) == {
        "Accepted": ("True", "Accepted"),
        "Programmed": programmed,
        "Connected": connected,
        "Ready": ready,
    }


def test_of_a_link_that_is_not_accepted_nothing_else_is_told() -> None:
    bad = Finding("False", "NoService", "create it")
    found = status(link(), bad, [pair("us", "eu")], FOUR, NOW)
    assert found["clusters"] == []
    assert told([pair("us", "eu")], bad)["Ready"] == ("False", "NoService")
    assert told([pair("us", "eu")], bad)["Connected"] == ("Unknown", "Pending")


def test_pairs_of_one_clusters_callers_that_are_alike_are_one_row() -> None:
    pairs = [
        pair("us", "eu"),
        pair("us", "de"),
        pair("us", "local-cluster", UNVERIFIED),
        pair("local-cluster", "us", NO_PATH, driver=""),
    ]
    rows = status(link("web-x", service="web"), GOOD, pairs, FOUR, NOW)["clusters"]
    assert [(row["cluster"], row["driver"], row["reason"], row["from"], row["ready"]) for row in rows] == [
        ("us", "endpointslices", "Connected", ["eu", "de"], "True"),
        ("us", "endpointslices", "Unverified", ["local-cluster"], "True"),
        ("local-cluster", "none", "NoPath", ["us"], "False"),
    ]
    assert [row["endpoints"] for row in rows] == [4, 2, 2]
    assert {row["namespace"] for row in rows} == {"shop"}


def test_what_keeps_pairs_apart_is_told_of_the_first_three() -> None:
    pairs = [pair(f"c{n}", "eu", NO_PATH, driver="") for n in range(5)]
    conditions = {each["type"]: each for each in status(link(), GOOD, pairs, FOUR, NOW)["conditions"]}
    assert conditions["Ready"]["message"] == (
        "c0 from eu: networks overlap; c1 from eu: networks overlap; c2 from eu: networks overlap; and 2 more"
    )
    assert conditions["Ready"]["observedGeneration"] == 2


def test_the_same_is_told_in_the_same_words_whatever_the_time() -> None:
    pairs = [pair("us", "eu"), pair("hub", "eu", UNVERIFIED)]
    first = status(link(), GOOD, pairs, FOUR, NOW)
    again = status({**link(), "status": first}, GOOD, pairs, FOUR, NOW.replace(year=2027))
    assert again == first
    assert is_true(first["conditions"], READY)


def test_callers_in_other_namespaces_have_rows_of_their_own() -> None:
    pairs = [pair("us", "eu"), Pair("us", "eu", "endpointslices", PENDING, WORKS, 2, "web")]
    found = status(link(), GOOD, pairs, FOUR, NOW)
    assert [(row["cluster"], row["namespace"], row["reason"]) for row in found["clusters"]] == [
        ("us", "shop", "Connected"),
        ("us", "web", "Pending"),
    ]
    assert found["conditions"][-1]["message"] == "us (namespace web) from eu: not yet"


@pytest.mark.parametrize(
    ("spec", "offered", "want", "words"),
    [
        ({}, Offered(0), ("False", "NoEndpoints"), "no endpoint is ready in any cluster"),
        ({}, Offered(0, ("us",)), ("False", "NoEndpoints"), "no endpoint is ready in any cluster"),
        ({"from": ["us"]}, Offered(0), ("False", "NoEndpoints"), "ready in us, which spec.from names: see the pods"),
        ({"from": ["us", "eu"]}, Offered(0), ("False", "NoEndpoints"), "ready in eu, us, which spec.from names"),
        # An agent that has just started, and a cluster that does not answer.
        ({"from": ["us"]}, Offered(0, ("us",)), ("Unknown", "TargetUnreachable"), "what us has: see its Target"),
        ({"from": ["us", "eu"]}, Offered(1, ("us",)), ("True", "Connected"), ""),
    ],
)
def test_a_link_reaches_something_where_the_clusters_that_it_names_have_something(
    spec: dict[str, Any], offered: Offered, want: tuple[str, str], words: str
) -> None:
    found = {each["type"]: each for each in status(link(**spec), GOOD, [], offered, NOW)["conditions"]}
    assert (found["Connected"]["status"], found["Connected"]["reason"]) == want
    assert (found["Ready"]["status"], found["Ready"]["reason"]) == (want if want[0] != "True" else ("True", "Ready"))
    assert words in found["Connected"]["message"]


def test_a_row_whose_clusters_have_no_ready_endpoint_says_so() -> None:
    pairs = [
        none("us", "eu"),
        none("us", "de", UNVERIFIED),
        none("hub", "eu"),
        pair("hub", "us"),
        none("eu", "us", NO_PATH),
        none("de", "us", SILENT),
        none("de", "eu", WORKS, PENDING),
    ]
    rows = status(link(), GOOD, pairs, FOUR, NOW)["clusters"]
    assert [(row["cluster"], row["reason"], row["from"], row["ready"], row["endpoints"]) for row in rows] == [
        ("us", "NoEndpoints", ["eu", "de"], "False", 0),
        # Other sources in the same row have endpoints: callers reach those.
        ("hub", "Connected", ["eu", "us"], "True", 2),
        # Other problems are listed first.
        ("eu", "NoPath", ["us"], "False", 0),
        ("de", "TargetUnreachable", ["us"], "Unknown", 0),
        ("de", "Pending", ["eu"], "False", 0),
    ]
    assert rows[0]["message"] == "no endpoint is ready there: see the pods of the Service"


def none(*args: Any) -> Pair:
    """Return a pair whose source has no ready endpoint."""
    return msgspec.structs.replace(pair(*args), endpoints=0)


@pytest.mark.parametrize(
    ("pairs", "host", "told"),
    [
        ([], "web", {}),
        ([pair("us", "eu", driver="mcs")], "web.shop.svc.clusterset.local", {"us": "its agent answers"}),
        ([pair("us", "eu", driver="linkerd")], "web-federated", {"us": "its agent answers"}),
        # Without a path there is no name either.
        (
            [pair("us", "eu", driver="mcs"), pair("de", "eu", NO_PATH, driver="")],
            "web.shop.svc.clusterset.local",
            {"us": "its agent answers", "de": "networks overlap"},
        ),
        (
            [pair("us", "eu", driver="linkerd"), pair("de", "eu", NO_PATH, driver="linkerd")],
            "web-federated",
            {"us": "its agent answers", "de": "networks overlap"},
        ),
        ([pair("de", "eu", NO_PATH, driver="linkerd")], "web-federated", {"de": "networks overlap"}),
        # Callers of one link share one name: rows mark the different ones.
        (
            [pair("us", "eu", driver="mcs"), pair("de", "eu", driver="gateway"), pair("hub", "eu", driver="linkerd")],
            "web",
            {
                "us": "callers use web.shop.svc.clusterset.local; its agent answers",
                "de": "its agent answers",
                "hub": "callers use web-federated; its agent answers",
            },
        ),
        (
            [pair("us", "eu", Finding("True", "Connected"), driver="mcs"), pair("de", "eu")],
            "web",
            {"us": "callers use web.shop.svc.clusterset.local", "de": "its agent answers"},
        ),
    ],
)
def test_the_name_that_callers_use_is_that_of_the_driver_that_leads(
    pairs: list[Pair], host: str, told: dict[str, str]
) -> None:
    found = status(link(), GOOD, pairs, FOUR, NOW)
    assert found["host"] == host
    assert {row["cluster"]: row["message"] for row in found["clusters"]} == told
