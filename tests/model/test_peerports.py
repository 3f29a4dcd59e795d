"""Local ports: their allotment to GatewayPeers, and the status of GatewayPeers without one."""

from collections.abc import Sequence
from typing import Any

import pytest

from agent.model import localports
from agent.model.gatewayhosts import Headless, Host, every_local
from agent.model.gatewaylink import Shared
from agent.model.gatewaypeer import FIRST_PORT, LAST_PORT, TCP, UDP, Protocol
from agent.model.hostservices import host_services
from agent.model.localports import NAMESPACE_LIMIT, RESERVED, SMALL, SOURCE_LIMIT, Held, Want
from agent.model.peerports import Usable, allot, missing, named, ports_of, programmed
from tests.model.test_gatewayhosts import DB, telling
from tests.model.test_gatewayhosts import TCP as DB_PORTS
from tests.model.test_gatewayhosts import allotted as of_host
from tests.model.test_gatewaylink import HTTP, peer
from tests.model.test_gatewayslices import allotted

Raw = dict[str, Any]
ALL = range(FIRST_PORT, LAST_PORT + 1)


def ports(given: Raw, taken: Any = (), gateways: int = 1, field: str = "services") -> list[Raw]:
    """Return the local ports if all named Services exist."""
    return allot(given, named(given), (), taken, gateways)[0][field]  # type: ignore[no-any-return]


def numbers(given: Raw, **more: Any) -> list[int]:
    return [each for service in ports(given, **more) for port in service["ports"] for each in port["locals"]]


@pytest.mark.parametrize(
    ("had", "taken", "ready", "want"),
    [
        ((), (), 1, [20000]),
        ((), (20000, 20001), 1, [20002]),
        ((20007,), (20000,), 1, [20007]),
        ((20007,), (20000,), 3, [20007, 20001, 20002]),
        # Fewer pods: connections stay.
        ((20007, 20008), (), 1, [20007, 20008]),
        # The port belongs to another peer.
        ((20007,), (20007,), 1, [20000]),
        ((80, 70000, 20007), (), 1, [20007]),
        ((20007, 20007), (), 2, [20007, 20000]),
    ],
)
def test_ports_stay_while_there_is_a_service(
    had: tuple[int, ...], taken: tuple[int, ...], ready: int, want: list[int]
) -> None:
    given = peer(services=[Shared("web", HTTP, ready)], status=allotted(*had))
    assert ports(given, taken) == [{"name": "web", "ports": [{"port": 80, "locals": want}]}]


def test_a_port_is_not_taken_from_one_service_for_another_at_once() -> None:
    assert numbers(peer(services=[Shared("db", HTTP, 1)], status=allotted(20000))) == [20001]


def test_every_port_has_its_own() -> None:
    given = peer(services=[Shared("web", (("a", 80), ("b", 81)), 2), Shared("db", (("", 5432),), 1)])
    assert sorted(numbers(given)) == list(range(20000, 20005))


def test_what_is_not_called_any_more_has_no_port() -> None:
    assert ports(peer(services=[], status=allotted(20000))) == []


@pytest.mark.parametrize(
    ("protocol", "field", "status", "want"),
    [
        (TCP, "services", {}, [20000]),
        (UDP, "udpServices", {}, [20001]),
        # A number represents one protocol; the current owner does not matter.
        (TCP, "services", {"udpServices": [{"name": "web", "ports": [{"port": 80, "locals": [20000]}]}]}, [20001]),
        (UDP, "udpServices", allotted(20000), [20001]),
        (UDP, "udpServices", {"udpServices": [{"name": "web", "ports": [{"port": 80, "locals": [20007]}]}]}, [20007]),
    ],
)
def test_ports_for_udp_are_of_the_same_range(protocol: Protocol, field: str, status: Raw, want: list[int]) -> None:
    given = peer(services=[Shared("web", HTTP, 1, HTTP)], status=status)
    assert ports(given, field=field) == [{"name": "web", "ports": [{"port": 80, "locals": want}]}]


def test_local_ports_of_hosts_stay_while_they_are_called_and_are_nobody_elses() -> None:
    both = Headless("db", DB_PORTS, (Host("db-0", 1), Host("db-1", 1)))
    given = telling(both, status={"headless": [of_host(20007), of_host(20003, host="db-2")]})
    found, problem = allot(given, {}, host_services(given, {"db"}), {20000}, 2)
    assert (found["headless"], problem) == ([of_host(20007), of_host(20001, host="db-1")], "")
    found, problem = allot(given, {}, host_services(given, {"db"}), ALL, 2)
    assert found["headless"] == []
    assert "no local ports for db-0 of db, db-1 of db" in problem


def test_a_number_of_a_service_that_is_called_no_more_is_not_at_once_another_ones() -> None:
    had = {"services": [{"name": "web", "ports": [{"port": 80, "locals": [20000]}]}], "headless": [of_host(20001)]}
    dns = [{"name": "dns", "ports": [{"port": 53}], "ready": 1}]
    other = Headless("db", DB_PORTS, (Host("db-1", 1),))
    given = telling(other, status=had)
    given["spec"] |= {"services": dns, "udpServices": dns}
    found, problem = allot(given, named(given), host_services(given, {"db"}), (), 2)
    tcp, udp = ([{"name": "dns", "ports": [{"port": 53, "locals": [number]}]}] for number in (20002, 20003))
    assert (found, problem) == ({"services": tcp, "udpServices": udp, "headless": [of_host(20004, host="db-1")]}, "")


def test_only_services_that_exist_here_and_have_the_port_get_local_ports() -> None:
    given = peer(services=[Shared("web", (("http", 80), ("x", 81)), 1), Shared("ghost", HTTP, 512)])
    web = ports_of({"ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}]})
    assert web == {(80, TCP), (53, UDP)}
    found, problem = allot(given, {"web": web}, (), (), 1)
    assert (found["services"], problem) == ([{"name": "web", "ports": [{"port": 80, "locals": [20000]}]}], "")
    assert missing(named(given)["web"] - web) == "it has no port 81/TCP"
    assert missing({(81, TCP), (82, TCP)}) == "it has no port 81/TCP and 1 more"
    assert missing(()) == ""


@pytest.mark.parametrize(
    ("problem", "left_out", "lacking", "reason", "message"),
    [
        ("", [], [], "Programmed", "hosts"),
        ("quota", ["db (absent)"], ["web (no port)"], "NoPort", "quota"),
        ("", [], ["web (no port)"], "NoPort", "Services that lack ports: web (no port)"),
        (
            "",
            ["db (absent)"],
            ["web (no port)"],
            "NoService",
            "Services that cannot be called: db (absent), web (no port)",
        ),
    ],
)
def test_a_service_that_lacks_a_port_leaves_the_other_services_of_the_peer_served(
    problem: str, left_out: list[str], lacking: list[str], reason: str, message: str
) -> None:
    found = programmed(problem, Usable({}, left_out, lacking), "hosts")
    assert (found.reason, found.message) == (reason, message)
    assert (found.status == "True") is (reason == "Programmed")


def many(count: int, ports_each: int = 1, ready: int = 1, **more: Any) -> Raw:
    told = tuple((f"p{number}", number) for number in range(1, ports_each + 1))
    return peer(services=[Shared(f"s{number:05}", told, ready) for number in range(count)], **more)


def test_one_object_takes_no_more_than_the_quota_of_its_source_in_its_namespace() -> None:
    given = many(50, 100, 512)
    found, problem = allot(given, named(given), (), (), 1)
    taken = every_local({"status": found})
    # Further ports of the same Services only get up to three quarters of the quota.
    assert len(taken) == SOURCE_LIMIT * 3 // 4
    assert problem == ""
    # Another namespace still gets ports.
    assert len(numbers(many(3), taken=taken)) == 3


def test_what_exceeds_a_quota_is_named_with_the_limit_and_the_remedy_and_the_rest_is_served() -> None:
    given = many(3, 100)
    found, problem = allot(given, named(given), (), (), 1, Held(SOURCE_LIMIT - 250, SOURCE_LIMIT - 250))
    assert [each["name"] for each in found["services"]] == ["s00000", "s00001"]
    assert problem == (
        f"no local ports for s00002: its source has {SOURCE_LIMIT - 250} of {SOURCE_LIMIT} local ports in namespace"
        " shop: share fewer Services, or ports of them, by gateways"
    )
    found, problem = allot(given, named(given), (), (), 1, Held(NAMESPACE_LIMIT - 100))
    assert [each["name"] for each in found["services"]] == ["s00000"]
    assert f"all sources have {NAMESPACE_LIMIT - 100} of {NAMESPACE_LIMIT} local ports in namespace shop" in problem


def test_a_service_gets_local_ports_for_all_of_its_ports_or_for_none() -> None:
    found, problem = allot(many(1, 3), named(many(1, 3)), (), (), 1, Held(0, SOURCE_LIMIT - 2))
    assert found["services"] == []
    assert "s00000" in problem


def test_what_has_been_allotted_stays_beyond_the_quota() -> None:
    status = {
        "services": [
            {"name": f"s{number:05}", "ports": [{"port": 1, "locals": [FIRST_PORT + number]}]}
            for number in range(NAMESPACE_LIMIT + 500)
        ]
    }
    given = many(NAMESPACE_LIMIT + 501, status=status)
    found, problem = allot(given, named(given), (), (), 1, Held(20_000, 20_000))
    assert found["services"] == status["services"]
    assert problem.startswith(f"no local ports for s{NAMESPACE_LIMIT + 500}: ")
    # Numbers of deleted Services are free again.
    found, _ = allot(given, {"s00001": {(1, TCP)}}, (), (), 1)
    assert found["services"] == [{"name": "s00001", "ports": [{"port": 1, "locals": [FIRST_PORT + 1]}]}]


def test_the_last_numbers_are_for_namespaces_that_have_few() -> None:
    taken = ALL[: len(ALL) - RESERVED]
    found, problem = allot(many(5), named(many(5)), (), taken, 1, Held(SMALL, SMALL))
    assert found["services"] == []
    assert f"{RESERVED} of all local ports" in problem
    found, problem = allot(many(SMALL + 5), named(many(SMALL + 5)), (), taken, 1)
    assert len(found["services"]) == SMALL
    assert "s00200" in problem


def test_without_a_free_number_the_message_has_a_remedy() -> None:
    _, problem = allot(many(1), named(many(1)), (), ALL, 1)
    assert problem.startswith("no local ports for s00000: 0 of all local ports (20000 to 59999) are free")
    assert "share fewer Services" in problem


def test_weights_leave_room_for_new_services() -> None:
    given = many(1_000, 1, 512)
    (found, problem), want = allot(given, named(given), (), (), 1), SOURCE_LIMIT * 3 // 4
    assert (len(every_local({"status": found})), problem) == (want, "")
    status = {field: each for field, each in found.items() if each}
    more = many(1_000 + SOURCE_LIMIT // 4, 1, 512, status=status)
    found, problem = allot(more, named(more), (), (), 1)
    assert (len(every_local({"status": found})), problem) == (SOURCE_LIMIT, "")


def test_a_headless_service_is_named_with_its_host() -> None:
    given = telling(DB)
    _, problem = allot(given, {}, host_services(given, {"db"}), ALL, 1)
    assert "no local ports for db-0 of db:" in problem


def test_of_ports_far_beyond_the_quota_most_are_not_even_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    given, wanted, real = many(5_000, 28), list[Want](), localports.allot

    def counted(wants: Sequence[Want], *rest: Any) -> localports.Allotted:
        wanted.extend(wants)
        return real(wants, *rest)

    monkeypatch.setattr(localports, "allot", counted)
    found, problem = allot(given, named(given), (), (), 1)
    assert sum(len(each.ports) for each in wanted) < NAMESPACE_LIMIT + 28
    assert len(every_local({"status": found})) <= SOURCE_LIMIT
    # Ports beyond the limit are not examined and count as refused, like the others.
    assert problem.startswith("no local ports for s00285, s00286, ")
    assert f"and {5_000 - SOURCE_LIMIT // 28 - 5} more" in problem
