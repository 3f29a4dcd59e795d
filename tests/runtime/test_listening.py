import socket

import pytest

from agent.runtime.listening import bind, has_family, listen

IPV6 = pytest.mark.skipif(not has_family(socket.AF_INET6), reason="this machine has no IPv6")


def close(sockets: list[socket.socket]) -> None:
    for each in sockets:
        each.close()


@IPV6
def test_an_empty_host_means_both_families_at_one_port() -> None:
    made = listen("", 0)
    try:
        port = made[0].getsockname()[1]
        for host in ("127.0.0.1", "::1"):
            with socket.create_connection((host, port), timeout=5) as called:
                assert called.getpeername()[1] == port
        assert [each.family for each in made] == [socket.AF_INET, socket.AF_INET6]
    finally:
        close(made)


@IPV6
def test_peers_of_ipv4_keep_their_address_where_both_families_are_served() -> None:
    made = listen("", 0)
    try:
        with socket.create_connection(("127.0.0.1", made[0].getsockname()[1]), timeout=5):
            made[0].setblocking(True)
            accepted, address = made[0].accept()
            accepted.close()
        assert address[0] == "127.0.0.1"
    finally:
        close(made)


@IPV6
def test_the_wildcard_of_ipv6_alone_takes_connections_of_ipv4_too() -> None:
    made = listen("::", 0)
    try:
        with socket.create_connection(("127.0.0.1", made[0].getsockname()[1]), timeout=5):
            pass
    finally:
        close(made)


def test_a_machine_without_ipv6_is_served_by_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.socket

    def refuse(family: int, *arguments: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(97, "Address family not supported by protocol")
        return real(family, *arguments)

    monkeypatch.setattr(socket, "socket", refuse)
    made = bind("", 0)
    close(made)
    assert [each.family for each in made] == [socket.AF_INET]


def test_a_port_taken_in_one_family_is_refused_as_a_whole() -> None:
    taken = listen("127.0.0.1", 0)
    port = taken[0].getsockname()[1]
    try:
        with pytest.raises(OSError, match=f"cannot listen on :{port}: address already in use"):
            bind("", port)
    finally:
        close(taken)
