"""What the words of the command line mean, and that a plan survives being written down."""

from pathlib import Path

import pytest

from agent.sandbox import SandboxError
from agent.sandbox.plan import ClusterPlan, NodeShape, Plan, identity, parse_names, parse_nodes, parse_regions


def plan() -> Plan:
    cluster = ClusterPlan("us", 1, "10.130.1.11", "us-east", NodeShape(3), "flotilla-abcdef-us")
    return Plan(
        directory="/somewhere",
        identity="abcdef",
        kubernetes="1.36",
        programs={"etcd": "/bin/etcd"},
        clusters=(cluster,),
        agent_flags=("--lease=1",),
    )


def test_a_plan_reads_back_as_it_was_written() -> None:
    assert Plan.parse(plan().dump()) == plan()


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"identity": "abcdef"}', plan().dump()[:200]])
def test_a_damaged_record_is_refused_with_a_remedy(text: bytes) -> None:
    with pytest.raises(SandboxError, match="take it down"):
        Plan.parse(text)


def test_names_may_be_a_list_or_separated_by_commas() -> None:
    assert parse_names("cd, us,eu") == parse_names(["cd", "us", "eu"]) == ("cd", "us", "eu")


@pytest.mark.parametrize(
    "names", ["", "a,", "A", "a_b", "-a", "a-", "a" * 41, "../x", "a,a", [f"c{i}" for i in range(32)]]
)
def test_names_that_would_not_work_are_refused(names: str | list[str]) -> None:
    with pytest.raises(SandboxError):
        parse_names(names)


def test_nodes_are_counted() -> None:
    assert parse_nodes("kwok:12") == 12
    assert parse_nodes("kwok:0") == 0


@pytest.mark.parametrize("text", ["", "kwok", "kwok:", "kwok:-1", "kwok:x", "kwok:1001", "five"])
def test_nodes_that_are_not_understood_are_refused(text: str) -> None:
    with pytest.raises(SandboxError, match="kwok:N"):
        parse_nodes(text)


def test_real_nodes_are_said_to_come_later() -> None:
    with pytest.raises(SandboxError, match="not supported yet"):
        parse_nodes("real:1")


def test_a_cluster_without_a_region_is_its_own() -> None:
    assert parse_regions(["us=us-east-1"], ["cd", "us"]) == {"cd": "cd", "us": "us-east-1"}


@pytest.mark.parametrize("pair", ["us", "us=", "mars=red"])
def test_regions_that_are_not_understood_are_refused(pair: str) -> None:
    with pytest.raises(SandboxError, match="CLUSTER=REGION"):
        parse_regions([pair], ["us"])


def test_an_identity_belongs_to_a_directory() -> None:
    assert identity(Path("/a")) == identity(Path("/a"))
    assert identity(Path("/a")) != identity(Path("/b"))
    assert len(identity(Path("/a"))) == 6
