"""Ports of virtual nodes."""

import socket

from agent.kubelet.server import bind, candidates
from tests.runtime.test_health import free_port


def first(preferred: int | None, avoid: set[int]) -> int:
    return next(candidates(10250, preferred, avoid))


def test_a_node_keeps_the_port_it_has_announced() -> None:
    assert first(10252, set()) == 10252


def test_a_new_node_gets_the_first_port_that_no_other_node_has_announced() -> None:
    assert first(None, {10250, 10251}) == 10252


def test_of_two_nodes_that_announce_the_same_port_one_gets_another() -> None:
    assert first(10250, {10250}) == 10251


def test_a_port_from_before_the_setting_was_changed_is_given_up() -> None:
    assert first(443, set()) == first(40_000, set()) == 10250


def test_no_port_is_beyond_the_last() -> None:
    assert max(candidates(65_000, None, ())) == 65_535


def test_what_another_process_listens_on_is_passed_over() -> None:
    port = free_port()
    with socket.socket() as other:
        other.bind(("0.0.0.0", port))
        other.listen()
        made = bind("127.0.0.1", port, port, ())
        assert made is not None
        with made:
            assert made.getsockname()[1] > port


def test_an_address_of_ipv6_is_served_on_ipv6() -> None:
    made = bind("::1", free_port(), None, ())
    assert made is not None
    with made:
        assert made.family == socket.AF_INET6
