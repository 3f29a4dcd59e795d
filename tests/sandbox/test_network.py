"""Addresses and ports."""

import asyncio
import ipaddress
import socket
from pathlib import Path

import pytest

from hack.lab.sandbox import SandboxError, network
from hack.lab.sandbox.plan import PORTS

Net = ipaddress.IPv4Network


def test_a_sandbox_gets_the_same_subnet_every_time() -> None:
    assert network.choose_subnet("abcdef", []) == network.choose_subnet("abcdef", [])
    assert network.choose_subnet("abcdef", []) != network.choose_subnet("abcdee", [])


def test_a_subnet_in_use_is_left_alone() -> None:
    first = network.choose_subnet("abcdef", [])
    second = network.choose_subnet("abcdef", [first])
    assert not second.overlaps(first)
    host = Net((int(second.network_address) + 7, 32))
    assert not network.choose_subnet("abcdef", [first, host]).overlaps(second)


def test_a_route_to_all_private_addresses_does_not_stop_us() -> None:
    assert network.choose_subnet("abcdef", [Net("10.0.0.0/8")]).prefixlen == 24


@pytest.mark.parametrize("identity", ["000000", "ffffff", "abcdef"])
def test_subnets_stay_clear_of_service_and_pod_networks(identity: str) -> None:
    subnet = network.choose_subnet(identity, [])
    assert not subnet.overlaps(Net("10.96.0.0/11"))
    assert not subnet.overlaps(Net("10.224.0.0/11"))


def test_when_every_subnet_is_in_use_it_says_so() -> None:
    with pytest.raises(SandboxError, match="no free"):
        network.choose_subnet("abcdef", [Net("10.128.0.0/9")])


def test_an_ipv6_subnet_in_use_is_left_alone_and_subnets_of_ipv4_do_not_matter() -> None:
    first = network.choose_subnet("abcdef", [Net("10.128.0.0/9")], 6)
    assert str(first) == "fd66:6c75:ab:cdef::/64"
    assert str(network.choose_subnet("abcdef", [first], 6)) == "fd66:6c75:ab:cdf0::/64"


@pytest.mark.parametrize("setting", ["1\n", None])
def test_a_machine_without_ipv6_is_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str | None
) -> None:
    file = tmp_path / "disable_ipv6"
    if setting is not None:
        file.write_text(setting)
    monkeypatch.setattr(network, "_DISABLE_IPV6", file)
    with pytest.raises(SandboxError, match=r"no IPv6.*use --ip-family ipv4"):
        network.require_ipv6()


def test_interface_names_fit_the_kernels_limit() -> None:
    assert len(network.link_name("abcdef", 30)) <= 15


def test_clusters_on_loopback_have_addresses_of_their_own() -> None:
    addresses = {network.loopback_address("abcdef", index) for index in range(31)}
    assert len(addresses) == 31
    assert all(ipaddress.ip_address(address).is_loopback for address in addresses)


def test_a_taken_port_is_replaced_and_no_port_is_given_twice() -> None:
    address = network.loopback_address("0a0b0c", 0)
    assert dict(network.free_ports(address)) == PORTS
    with socket.socket() as other:
        other.bind((address, PORTS["kube-apiserver"]))
        other.listen()
        ports = network.free_ports(address)
    assert ports["kube-apiserver"] != PORTS["kube-apiserver"]
    assert len(set(ports.values())) == len(PORTS)


async def test_two_sandboxes_do_not_choose_at_the_same_time() -> None:
    order: list[str] = []

    async def choose(name: str) -> None:
        async with network.exclusive():
            order.append(f"{name} in")
            await asyncio.sleep(0.01)
            order.append(f"{name} out")

    await asyncio.gather(choose("a"), choose("b"))
    assert [entry.split()[1] for entry in order] == ["in", "out", "in", "out"]
    assert order[0][0] == order[1][0]


async def test_without_the_program_ip_the_error_names_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError, match=r"need the program `ip`.*apt-get install iproute2"):
        await network.used_networks()
