"""Doctor's findings about ServiceLinks and GatewayPeers that do not work."""

from typing import Any

from agent.cli.checks import dialed, linked
from agent.cli.checks.finding import Level
from agent.cli.checks.view import Call, Dialed, Verdict
from tests.cli.test_checks import view


def told(name: str, type: str, status: str = "", reason: str = "", message: str = "") -> dict[str, Any]:
    said = [{"type": type, "status": status, "reason": reason, "message": message}] if status else []
    return {"metadata": {"namespace": "shop", "name": name}, "status": {"conditions": said}}


def link(name: str, *said: str) -> dict[str, Any]:
    return told(name, "Ready", *said)


def test_links_of_which_the_same_is_said_are_one_finding() -> None:
    away = ("False", "TargetUnreachable", "eu from here: Target eu: no answer")
    cut = [link(f"web-{number}", *away) for number in range(5)]
    both = list(
        linked.links(view(links=(*cut, link("db", "False", "NoPath", "name the right ranges"), link("api", "True"))))
    )
    assert [each.level for each in both] == [Level.WARN, Level.WARN, Level.OK]
    assert both[0].about == "ServiceLink shop/web-0, shop/web-1, shop/web-2 and 2 more"
    assert (both[0].what, both[0].remedy) == ("endpoints are not reached (TargetUnreachable)", away[2])
    assert (both[1].about, both[1].remedy) == ("ServiceLink shop/db", "name the right ranges")
    assert both[2].what == "1 of 7 ServiceLinks work"


def test_a_service_without_ready_pods_is_no_fault_and_a_link_that_nobody_looks_at_is() -> None:
    assert list(linked.links(view(links=(link("web", "False", "NoEndpoints", "see the pods"),)))) == []
    (finding,) = linked.links(view(links=(link("web"),)))
    assert "no agent has said anything" in finding.what
    assert "--service-links" in finding.remedy


def test_gateways_that_do_not_answer_are_told_with_what_to_do() -> None:
    peers = (
        told("eu", "Connected", "False", "PeerUnreachable", "10.0.0.1:443 does not answer: see its firewall"),
        told("us", "Connected", "True"),
        told("ap", "Connected"),
    )
    found = list(linked.gateways(view(peers=peers)))
    assert [(each.level, each.about) for each in found] == [
        (Level.WARN, "GatewayPeer shop/eu"),
        (Level.WARN, "GatewayPeer shop/ap"),
        (Level.OK, "gateways"),
    ]
    assert found[0].remedy.endswith("see its firewall")
    assert "--gateway" in found[1].remedy


def test_what_a_peer_asks_for_in_vain_is_told_with_the_limit() -> None:
    full = told("eu", "Programmed", "False", "NoPort", "no local ports for db: share fewer Services")
    full["status"]["conditions"] += told("eu", "Connected", "True", message="gw-1: it is too much")["status"][
        "conditions"
    ]
    found = list(linked.gateways(view(peers=(full,))))
    assert [(each.level, each.about, each.remedy) for each in found[:2]] == [
        (Level.WARN, "GatewayPeer shop/eu", "no local ports for db: share fewer Services"),
        (Level.WARN, "GatewayPeer shop/eu", "gw-1: it is too much"),
    ]


def test_nothing_is_said_where_nothing_is_linked() -> None:
    assert [*linked.links(view()), *linked.gateways(view())] == []


def call(verdict: Verdict, detail: str = "", peer: str = "eu", *, connected: bool = False) -> Call:
    return Call("192.0.2.1:15443", Dialed(verdict, detail), "shop" if peer else "", peer, connected)


def test_of_gateways_that_are_called_it_is_said_which_side_refuses() -> None:
    sides = {
        Verdict.OTHER_CA: "this side refuses",
        Verdict.OTHER_CLUSTER: "this side refuses",
        Verdict.EXPIRED: "this side refuses",
        Verdict.NOT_LINKED: "the other side refuses",
        Verdict.NOT_ADMITTED: "the other side refuses",
        Verdict.UNREACHABLE: "does not answer (why)",
        Verdict.NO_TLS: "it is no gateway",
    }
    for verdict, words in sides.items():
        (finding,) = dialed.gateways(view(calls=(call(verdict, "why"), call(verdict, "why", "us"))))
        assert (finding.level, finding.about) == (Level.WARN, "gateway 192.0.2.1:15443 of shop/eu, shop/us")
        assert words in finding.what
        assert "(why)" in finding.what
        assert finding.remedy
    assert sides.keys() == set(Verdict) - {Verdict.ADMITTED, Verdict.UNASKED}


def test_a_machine_that_does_not_reach_what_gateways_reach_is_no_fault_of_these() -> None:
    for which in (call(Verdict.UNREACHABLE, connected=True), call(Verdict.UNREACHABLE, peer="")):
        (finding,) = dialed.gateways(view(calls=(which,)))
        assert finding.level is Level.OK
        assert "where this runs" in finding.what


def test_whether_others_admit_us_is_told_only_where_it_was_asked() -> None:
    (admitted,) = dialed.gateways(view(calls=(call(Verdict.ADMITTED),)))
    assert "each side takes the other's" in admitted.what
    (untold,) = dialed.gateways(view(calls=(call(Verdict.UNASKED),)))
    assert "could not be asked" in untold.what


def test_what_is_called_and_has_no_address_is_not_exposed() -> None:
    def peer(services: list[Any], addresses: list[str], **more: Any) -> dict[str, Any]:
        return told("eu", "Connected") | {"spec": {"services": services, "addresses": addresses, **more}}

    others = ({field: [{"name": "db"}]} for field in ("headless", "udpServices"))
    for called in (peer([{"name": "web"}], []), *(peer([], [], **each) for each in others)):
        (finding,) = dialed.exposed(view(peers=(called,)))
        assert "not exposed" in finding.what
        assert "gateway.addresses" in finding.remedy
    assert list(dialed.exposed(view(peers=(peer([], []), peer([{"name": "web"}], ["192.0.2.1:15443"]))))) == []
