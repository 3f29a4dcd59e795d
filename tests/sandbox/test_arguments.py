"""Meaning of the arguments of a sandbox."""

import pytest

from hack.lab.sandbox import SandboxError
from hack.lab.sandbox.arguments import parse_family, parse_names, parse_nodes, parse_regions, parse_versions


def test_names_may_be_a_list_or_separated_by_commas() -> None:
    assert parse_names("cd, us,eu") == parse_names(["cd", "us", "eu"]) == ("cd", "us", "eu")


@pytest.mark.parametrize(
    "names", ["", "a,", "A", "a_b", "-a", "a-", "a" * 41, "../x", "a,a", [f"c{i}" for i in range(32)]]
)
def test_names_that_would_not_work_are_refused(names: str | list[str]) -> None:
    with pytest.raises(SandboxError):
        parse_names(names)


def test_nodes_are_counted() -> None:
    assert parse_nodes("kwok:12") == ("kwok", 12, 0)
    assert parse_nodes("kwok:0") == ("kwok", 0, 0)
    assert parse_nodes("real:1") == ("real", 1, 0)
    assert parse_nodes("real:1+kwok:3") == ("real", 1, 3)


@pytest.mark.parametrize(
    "text",
    [
        *("", "kwok", "kwok:", "kwok:-1", "kwok:x", "kwok:1001", "five", "real", "real:", "real:0", "real:x"),
        *("real:1+", "real:1+kwok", "kwok:1+real:1", "kwok:1+kwok:2", "real:1+real:1", "real:1+kwok:1+kwok:1"),
    ],
)
def test_nodes_that_are_not_understood_are_refused(text: str) -> None:
    with pytest.raises(SandboxError, match="kwok:N"):
        parse_nodes(text)


def test_a_second_real_node_is_refused_with_the_reason() -> None:
    with pytest.raises(SandboxError, match="network namespace of its own; write real:1"):
        parse_nodes("real:2")


def test_a_cluster_without_a_region_is_its_own() -> None:
    assert parse_regions(["us=us-east-1"], ["cd", "us"]) == {"cd": "cd", "us": "us-east-1"}


@pytest.mark.parametrize("pair", ["us", "us=", "mars=red"])
def test_regions_that_are_not_understood_are_refused(pair: str) -> None:
    with pytest.raises(SandboxError, match="CLUSTER=REGION"):
        parse_regions([pair], ["us"])


def test_clusters_may_have_versions_of_their_own() -> None:
    assert parse_versions(["eu=1.30", "us=1.32.4"], ("cd", "us", "eu"), "kwok") == {"eu": "v1.30.14", "us": "v1.32.4"}


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("eu", "write CLUSTER=1.30, with one of cd, eu"),
        ("us=1.30", "with one of cd, eu"),
        ("eu=1.29.9", "use 1.30 or newer"),
        ("eu=latest", "use 1.30 or newer, such as 1.30.14"),
        ("eu=1.32", "write the whole version, such as 1.32.1, or 1.30"),
    ],
)
def test_a_version_that_cannot_be_had_is_refused_with_the_remedy(pair: str, message: str) -> None:
    with pytest.raises(SandboxError, match=message):
        parse_versions([pair], ("cd", "eu"), "kwok")


def test_real_nodes_are_of_one_version() -> None:
    with pytest.raises(SandboxError, match="leave out either"):
        parse_versions(["cd=1.30"], ("cd", "eu"), "real")


@pytest.mark.parametrize("text", ["ipv4", "ipv6", "dual"])
def test_an_ip_family_is_known_by_its_name(text: str) -> None:
    assert parse_family(text) == text


@pytest.mark.parametrize("text", ["", "IPv6", "6", "ipv4,ipv6"])
def test_an_unknown_ip_family_is_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(SandboxError, match="use ipv4, ipv6 or dual"):
        parse_family(text)
