"""Detection of flat pod networks between two clusters."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.api.names import links
from agent.model import pod_networks
from agent.model.pod_networks import (
    LIMIT,
    NOTHING_TOLD,
    AgentAnswer,
    Told,
    judge,
    named_by,
    not_granted,
    overlap,
    read,
    united,
    waits,
    write,
)
from agent.model.podranges import network
from tests.examples import examples

HEALTH = "10.2.0.7:8080"


def nets(*cidrs: str) -> pod_networks.Networks:
    return tuple(found for found in map(network, cidrs) if found is not None)


def node(*cidrs: str) -> dict[str, Any]:
    return {"spec": {"podCIDR": cidrs[0], "podCIDRs": list(cidrs)}} if cidrs else {}


def told(text: str) -> Told:
    return read({links.ANNOTATION_NETWORKS: text})


def of_nodes(nodes: list[dict[str, Any]]) -> pod_networks.Networks:
    return united(each for node in nodes for each in named_by(node))


def test_networks_of_nodes_are_united() -> None:
    nodes = [node("10.1.1.0/24", "fd00::/64"), node("10.1.0.0/24"), node(), {"spec": {"podCIDR": "10.1.9.0/24"}}]
    assert of_nodes(nodes) == nets("10.1.0.0/23", "10.1.9.0/24", "fd00::/64")
    assert of_nodes([]) == ()


def test_networks_in_too_many_pieces_are_widened_where_that_adds_least() -> None:
    apart = [node(f"10.{number // 128}.{number % 128 * 2}.0/24") for number in range(LIMIT - 1)]
    assert len(of_nodes([*apart, node("10.9.0.0/24")])) == LIMIT
    found = of_nodes([*apart, node("10.9.0.0/24"), node("10.9.4.0/24")])
    assert len(found) == LIMIT
    assert set(nets("10.9.0.0/24", "10.9.4.0/24")) <= set(found)
    assert overlap(found, nets("10.1.3.0/24")) == ""
    assert sum(each.prefixlen == 22 for each in found) == 1


@settings(max_examples=examples(60))
@given(
    st.lists(st.integers(0, 2**16 - 1), min_size=LIMIT, max_size=3 * LIMIT, unique=True),
    st.lists(st.integers(0, 2**16 - 1), max_size=2 * LIMIT, unique=True),
)
def test_no_network_is_left_out_however_many_there_are(four: list[int], six: list[int]) -> None:
    written = [f"10.{each // 256}.{each % 256}.0/24" for each in four] + [f"fd00:0:0:{each:x}::/64" for each in six]
    found = united(written)
    assert len(found) <= LIMIT
    for each in nets(*written):
        assert any(each.version == other.version and each.subnet_of(other) for other in found)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pods", "agent", "want"),
    [
        (("10.1.0.0/16",), "", Told(nets("10.1.0.0/16"))),
        (("10.1.0.0/16",), "10.1.3.4", Told(nets("10.1.0.0/16"), "10.1.3.4:8080")),
        (("fd00::/64",), "fd00::5", Told(nets("fd00::/64"), "[fd00::5]:8080")),
        # The network plugin has ranges of its own.
        (("10.1.0.0/16",), "192.168.0.9", Told((), "192.168.0.9:8080")),
        ((), "10.1.3.4", Told((), "10.1.3.4:8080")),
        (("10.1.0.0/16",), "no address", Told(nets("10.1.0.0/16"))),
        ((), "", NOTHING_TOLD),
    ],
)
def test_what_is_written_is_read(pods: tuple[str, ...], agent: str, want: Told) -> None:
    assert told(write(nets(*pods), agent, 8080)) == want


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "5", '{"pods":["nonsense"]}', '{"pods":[5]}', '{"pods":"10.1.0.0/16"}', '{"pods":null}', "[" * 999],
)
def test_what_cannot_be_read_is_a_flaw_and_no_statement(text: str) -> None:
    assert told(text).flaw
    assert not told(text).pods


def test_a_field_that_cannot_be_used_hides_no_other() -> None:
    found = told(f'{{"pods":["nonsense","10.2.0.0/16"],"health":"{HEALTH}"}}')
    assert (found.pods, found.health) == (nets("10.2.0.0/16"), HEALTH)
    assert "nonsense" in found.flaw
    assert told(f'{{"pods":5,"health":"{HEALTH}"}}').health == HEALTH
    assert told('{"pods":["10.2.0.0/16"],"health":5}') == Told(nets("10.2.0.0/16"))


def test_too_much_is_not_read() -> None:
    many = told(msgspec.json.encode({"pods": ["10.1.0.0/16"] * (LIMIT + 1)}).decode())
    assert (many.pods, many.names_all) == (nets("10.1.0.0/16"), False)
    assert told('{"pods":[]}' + " " * 70_000).flaw
    assert read(None) == read({}) == NOTHING_TOLD


@pytest.mark.parametrize(
    "health",
    [
        "127.0.0.1:80",
        "[::1]:80",
        "169.254.169.254:80",
        "[fe80::1]:80",
        "224.0.0.1:80",
        "0.0.0.0:80",
        "[::]:80",
        "[::ffff:127.0.0.1]:80",
        "[fe80::1%eth0]:80",
        "web.example:80",
        "10.1.0.1",
        "10.1.0.1:0",
        "10.1.0.1:80/x",
        "10.1.0.1:99999",
        "x@10.1.0.1:80",
    ],
)
def test_a_target_does_not_have_us_ask_what_no_pod_can_be(health: str) -> None:
    assert told(msgspec.json.encode({"health": health}).decode()) == NOTHING_TOLD


@settings(max_examples=examples(300))
@given(st.text(max_size=60) | st.recursive(st.none() | st.integers() | st.text(max_size=9), st.lists, max_leaves=4))
def test_nothing_that_is_told_is_an_error(value: Any) -> None:
    assert isinstance(told(value if isinstance(value, str) else msgspec.json.encode({"pods": value}).decode()), Told)


@pytest.mark.parametrize(
    ("one", "other", "want"),
    [
        (("10.1.0.0/16",), ("10.2.0.0/16",), ""),
        (("10.1.0.0/16",), ("10.1.7.0/24",), "10.1.7.0/24"),
        (("10.1.7.0/24",), ("10.1.0.0/16",), "10.1.7.0/24"),
        (("10.1.0.0/16", "fd00::/64"), ("10.2.0.0/16", "fd00::/56"), "fd00::/64"),
        (("10.1.0.0/16",), ("fd00::/64",), ""),
        ((), ("10.1.0.0/16",), ""),
        ((), (), ""),
    ],
)
def test_overlap(one: tuple[str, ...], other: tuple[str, ...], want: str) -> None:
    assert overlap(nets(*one), nets(*other)) == want


HERE = Told(nets("10.1.0.0/16"), "10.1.0.3:8080")
APART = Told(nets("10.2.0.0/16"), HEALTH)
SAME = Told(nets("10.1.0.0/16"), "10.1.5.5:8080")
PARTLY = Told(nets("10.1.7.0/24", "10.2.0.0/16"), HEALTH)


@pytest.mark.parametrize(
    ("there", "asked", "before", "state", "reason", "message"),
    [
        (NOTHING_TOLD, None, "", "unverified", "", ""),
        (NOTHING_TOLD, None, "Forbidden", "unverified", "", ""),
        (APART, None, "", "unverified", "", ""),
        (APART, AgentAnswer(HEALTH, "there"), "", "flat", "", "its agent answers"),
        (APART, AgentAnswer(HEALTH), "", "unverified", "", "NetworkPolicy"),
        (APART, AgentAnswer(HEALTH, "else"), "", "not flat", links.STRANGERS, "answers that of cluster else"),
        (APART, AgentAnswer(HEALTH, "here"), "", "not flat", links.STRANGERS, "answers that of cluster here"),
        # The agent's pod has been replaced since.
        (APART, AgentAnswer("10.2.0.6:8080", "else"), "", "unverified", "", ""),
        (Told(APART.pods), None, "", "unverified", "", ""),
        # Silence neither removes nor restores a result.
        (APART, AgentAnswer(HEALTH), links.STRANGERS, "not flat", links.STRANGERS, "now nobody does"),
        (APART, None, links.STRANGERS, "not flat", links.STRANGERS, "now nobody does"),
        (APART, AgentAnswer(HEALTH, "there"), links.STRANGERS, "flat", "", ""),
        (APART, AgentAnswer(HEALTH), links.OVERLAP, "unverified", "", ""),
        (SAME, None, "", "not flat", links.OVERLAP, "10.1.0.0/16 is in the pod networks of both"),
        (SAME, AgentAnswer(SAME.health), "", "not flat", links.OVERLAP, "spec.podCIDRs"),
        (SAME, AgentAnswer(SAME.health, "here"), "", "not flat", links.OVERLAP, "multicluster/network-driver"),
        # The target's own agent answers at an address in this cluster's supposed range: no pods use podCIDRs.
        (SAME, AgentAnswer(SAME.health, "there"), "", "flat", "", ""),
        (SAME, AgentAnswer(SAME.health, "there", silent=True), "", "unverified", "", "nobody answers"),
        (APART, AgentAnswer(HEALTH, "there", silent=True), "", "unverified", "", "nobody answers"),
        (APART, AgentAnswer(HEALTH, "else", silent=True), "", "not flat", links.STRANGERS, ""),
        # An answer from another address proves nothing about the overlapping part.
        (PARTLY, AgentAnswer(HEALTH, "there"), "", "not flat", links.OVERLAP, "10.1.7.0/24"),
    ],
)
def test_a_pair_is_judged_by_what_is_told_and_who_answers(
    there: Told, asked: AgentAnswer | None, before: str, state: str, reason: str, message: str
) -> None:
    found = judge(HERE, there, "there", asked, before)
    assert (found.state, found.reason) == (state, reason)
    assert message in found.message
    assert found.usable == (state != "not flat")


@pytest.mark.parametrize(
    ("there", "asked", "want"),
    [
        (SAME, None, True),
        (SAME, AgentAnswer("10.1.5.4:8080", "there"), True),
        (SAME, AgentAnswer(SAME.health), False),
        (PARTLY, None, False),
        (APART, None, False),
        (Told(SAME.pods), None, False),
    ],
)
def test_nothing_is_said_while_only_an_answer_can_tell(there: Told, asked: AgentAnswer | None, want: bool) -> None:
    assert waits(HERE, there, asked) is want


def test_a_cluster_that_does_not_know_its_own_networks_overlaps_with_none() -> None:
    assert judge(NOTHING_TOLD, SAME, "there", None).usable


FLAWED = Told(nets("10.2.0.0/16"), HEALTH, "pods: 'nonsense' is no CIDR")


@pytest.mark.parametrize("there", [None, FLAWED])
@pytest.mark.parametrize("asked", [None, AgentAnswer(HEALTH), AgentAnswer(HEALTH, "there")])
@pytest.mark.parametrize(
    ("before", "usable", "reason"),
    [
        ("", True, ""),
        (links.OVERLAP, False, links.OVERLAP),
        (links.STRANGERS, False, links.STRANGERS),
        (links.UNTOLD, False, links.UNTOLD),
        (None, False, links.UNTOLD),
    ],
)
def test_while_a_summary_is_missing_or_flawed_the_last_verdict_stands(
    there: Told | None, asked: AgentAnswer | None, before: str | None, usable: bool, reason: str
) -> None:
    for pair in ((HERE, there), (there, HERE)):
        found = judge(*pair, "there", asked, before)
        assert (found.usable, found.reason, found.stands) == (usable, reason, True)


def test_a_summary_that_may_not_be_read_says_which_right_is_missing() -> None:
    found = not_granted("the target", "may not list clustersummaries", None)
    assert "the ClusterSummary of the target may not be read: may not list clustersummaries" in found.message
    assert found.reason == links.UNTOLD


def test_what_can_be_read_of_a_flawed_summary_shows_an_overlap() -> None:
    found = judge(HERE, Told(SAME.pods, "", "pods: 'nonsense' is no CIDR"), "there", None, "")
    assert (found.reason, found.stands) == (links.OVERLAP, False)


def test_an_overlap_stands_while_a_summary_names_no_networks_and_no_agent_answers() -> None:
    for there in (NOTHING_TOLD, Told(health=HEALTH)):
        assert judge(HERE, there, "there", None, links.OVERLAP).reason == links.OVERLAP
    assert judge(HERE, Told(health=HEALTH), "there", AgentAnswer(HEALTH, "there"), links.OVERLAP).state == "flat"
    assert judge(HERE, APART, "there", None, links.OVERLAP).usable


def test_an_answer_to_a_cluster_that_does_not_tell_who_it_is_proves_nothing() -> None:
    assert judge(HERE, APART, "", AgentAnswer(HEALTH, "there")).state == "unverified"


def test_an_unchanged_annotation_is_decoded_once() -> None:
    first = {links.ANNOTATION_NETWORKS: '{"pods":["10.77.0.0/16"],"health":"10.77.0.5:8080"}'}
    assert read(first) is read(dict(first))
    changed = {links.ANNOTATION_NETWORKS: '{"pods":["10.78.0.0/16"],"health":"10.77.0.5:8080"}'}
    assert read(changed) != read(first)
