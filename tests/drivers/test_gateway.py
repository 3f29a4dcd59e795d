"""Ports of a Service that gateways do not accept."""

import pytest

from agent.drivers.gateway import left_out_ports, refused_ports


def spec(*protocols: str) -> dict[str, object]:
    return {"ports": [{"port": 80 + number, "protocol": each} for number, each in enumerate(protocols)]}


@pytest.mark.parametrize(
    ("protocols", "udp", "says"),
    [
        (("TCP",), False, ""),
        (("TCP", "SCTP"), False, ""),
        (("UDP",), True, ""),
        (("UDP", "SCTP"), True, ""),
        ((), False, ""),
        (("UDP",), False, "all its ports are UDP, which gateways leave out without --gateway-udp"),
        (("SCTP",), True, "all its ports are SCTP, which gateways do not take: offer the Service by TCP"),
        (("SCTP", "UDP"), False, "and SCTP, which gateways do not take: offer the Service by TCP"),
    ],
)
def test_a_service_is_refused_if_gateways_take_none_of_its_ports(
    protocols: tuple[str, ...], udp: bool, says: str
) -> None:
    found = refused_ports(spec(*protocols), udp=udp)
    assert says in found
    assert bool(found) is bool(says)


def test_a_port_without_a_protocol_is_tcp() -> None:
    assert refused_ports({"ports": [{"port": 80}]}, udp=False) == ""


@pytest.mark.parametrize(
    ("protocols", "udp", "says"),
    [
        (("TCP", "UDP"), True, ""),
        (("TCP", "UDP"), False, "UDP ports are left out without --gateway-udp"),
        (("TCP", "SCTP"), True, "SCTP ports are left out"),
        (
            ("TCP", "UDP", "SCTP"),
            False,
            "UDP ports are left out without --gateway-udp and SCTP ports are left out",
        ),
    ],
)
def test_ports_that_are_left_out_are_named_by_protocol(protocols: tuple[str, ...], udp: bool, says: str) -> None:
    assert left_out_ports(spec(*protocols), udp=udp) == says
