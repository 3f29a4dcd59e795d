"""Addresses for clusters: network namespaces on one bridge (root), or loopback addresses with free ports."""

import asyncio
import contextlib
import ipaddress
import json
import os
import shutil
import socket
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path

from hack.lab.sandbox import ipfamilies
from hack.lab.sandbox.errors import NoNamespacesError, SandboxError
from hack.lab.sandbox.ipfamilies import Network, Version
from hack.lab.sandbox.plan import PORTS, ClusterPlan, Plan

_LOCK = "\0flotilla-sandbox-network"
_NAMESPACES = Path("/var/run/netns")
_LINKS = Path("/sys/class/net")
_DISABLE_IPV6 = Path("/proc/sys/net/ipv6/conf/all/disable_ipv6")


def bridge_name(identity: str) -> str:
    """Return the name of the bridge that joins a sandbox's clusters (an interface name has at most 15 characters)."""
    return f"flt{identity}"


def link_name(identity: str, index: int) -> str:
    """Return the name of the machine's end of a cluster's link."""
    return f"flt{identity}-{index}"


def namespace_name(identity: str, cluster: str) -> str:
    """Return the name of a cluster's network namespace."""
    return f"flotilla-{identity}-{cluster}"


def choose_subnet(identity: str, used: Iterable[Network], version: Version = 4) -> Network:
    """Return a free subnet; the same one for the same sandbox if possible. Raises SandboxError if none is free."""
    # A route to the whole of 10.0.0.0/8, as of a VPN, does not show which part of it is in use.
    taken = [network for network in used if network.version == version and network.prefixlen > 8]
    for offset in range(ipfamilies.SUBNETS):
        subnet = ipfamilies.subnet(version, int(identity, 16) + offset)
        if not any(subnet.overlaps(network) for network in taken):
            return subnet
    span = " and ".join(str(ipfamilies.subnet(version, number)) for number in (0, -1))
    raise SandboxError(f"no free network is left between {span}")


def require_ipv6() -> None:
    """Raise SandboxError if this machine has no IPv6."""
    try:
        enabled = _DISABLE_IPV6.read_text().strip() == "0"
    except OSError:
        enabled = False
    if not enabled:
        raise SandboxError(
            "this machine has no IPv6: set net.ipv6.conf.all.disable_ipv6 to 0 if the kernel has that setting,"
            " or use --ip-family ipv4"
        )


async def namespaces_work(identity: str) -> bool:
    """Return whether this user may create network namespaces."""
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("nsenter"):
        return False
    probe = namespace_name(identity, "probe-" + str(os.getpid()))
    try:
        await _ip("netns", "add", probe)
    except SandboxError:
        return False
    await _ip("netns", "delete", probe)
    return True


async def used_networks(version: Version = 4) -> list[Network]:
    """Return the networks of an IP version to which the machine has routes, without the default route."""
    routes = json.loads(await _ip("-json", f"-{version}", "route", "show", "table", "all") or "[]")
    found = []
    for route in routes:
        with contextlib.suppress(ValueError):
            found.append(ipaddress.ip_network(route["dst"], strict=False))
    return [network for network in found if network.prefixlen]


@contextlib.asynccontextmanager
async def exclusive() -> AsyncIterator[None]:
    """Keep other sandboxes on the machine from choosing a subnet until this one has configured its subnet."""
    with socket.socket(socket.AF_UNIX) as lock:
        while True:
            try:
                lock.bind(_LOCK)
                break
            except OSError:
                await asyncio.sleep(0.05)
        yield


async def make(plan: Plan) -> None:
    """Create the bridge, the namespaces and the links, or repair them. Raises SandboxError."""
    if not plan.bridge:
        return
    subnets = [ipaddress.ip_network(each) for each in plan.subnets]
    if not _exists(plan.bridge):
        await _ip("link", "add", plan.bridge, "type", "bridge")
    for subnet in subnets:
        await _add_address((), subnet, str(subnet[1]), plan.bridge)
    await _ip("link", "set", plan.bridge, "up")
    for cluster in plan.clusters:
        link = link_name(plan.identity, cluster.index)
        if not (_NAMESPACES / cluster.namespace).exists():
            await _ip("netns", "add", cluster.namespace)
        if not _exists(link):
            await _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", cluster.namespace)
        await _ip("link", "set", link, "master", plan.bridge, "up")
        inside = ("-n", cluster.namespace)
        await _ip(*inside, "link", "set", "lo", "up")
        for subnet, address in zip(subnets, cluster.addresses, strict=True):
            await _add_address(inside, subnet, address, "eth0")
        await _ip(*inside, "link", "set", "eth0", "up")
        for subnet in subnets:
            await _ip(*inside, f"-{subnet.version}", "route", "replace", "default", "via", str(subnet[1]))
        if plan.real_nodes:
            await _route_pods(plan, cluster)


async def _add_address(inside: Sequence[str], subnet: Network, address: str, link: str) -> None:
    # The kernel checks a new IPv6 address for duplicates for a second; meanwhile no process can listen on it.
    without_check = ("nodad",) if subnet.version == 6 else ()
    await _ip(*inside, "address", "replace", f"{address}/{subnet.prefixlen}", "dev", link, *without_check)


async def _route_pods(plan: Plan, cluster: ClusterPlan) -> None:
    """Route a cluster's pods to those of every other cluster: one flat pod network, unless all have the same."""
    for other in plan.clusters:
        if other is not cluster and not cluster.same_pods:
            for pods, address in zip(other.pod_ranges, other.addresses, strict=True):
                await _ip("-n", cluster.namespace, "route", "replace", pods, "via", address)


def require_rights(identity: str) -> None:
    """Raise SandboxError if this user may not remove a sandbox's network namespaces."""
    names = _names(_NAMESPACES, namespace_name(identity, "")) + _names(_LINKS, bridge_name(identity))
    if names and os.geteuid() != 0:
        raise SandboxError("this sandbox was started by root and has network namespaces: take it down as root")


async def remove(identity: str) -> bool:
    """Remove the namespaces and links of a sandbox by their names. Return whether any existed."""
    names = _names(_NAMESPACES, namespace_name(identity, ""))
    links = _names(_LINKS, bridge_name(identity))
    for name in names:
        await _ip("netns", "delete", name)
    # The kernel removes a link shortly after its namespace; a removed link is no error.
    for link in sorted(links, reverse=True):
        with contextlib.suppress(SandboxError):
            await _ip("link", "delete", link)
    left = [link for link in links if _exists(link)]
    if left:
        raise SandboxError(f"network interface {left[0]} cannot be removed; try: ip link delete {left[0]}")
    return bool(names or links)


async def set_link(plan: Plan, index: int, *, up: bool) -> None:
    """Cut a cluster off from everything else, or connect it again. Raises SandboxError without namespaces."""
    if not plan.bridge:
        raise NoNamespacesError("a link can only be cut where clusters have network namespaces, which takes root")
    await _ip("link", "set", link_name(plan.identity, index), "up" if up else "down")


def loopback_address(identity: str, index: int) -> str:
    """Return a separate address for each cluster: all of 127.0.0.0/8 belongs to this machine."""
    number = int(identity, 16)
    return f"127.{64 + (number >> 8) % 128}.{number % 256}.{index + 1}"


def free_ports(address: str, *, taken: Iterable[int] = ()) -> Mapping[str, int]:
    """Return a port for every listening process: the default one if it is free on this address, else another one."""
    avoid = set(taken)
    ports: dict[str, int] = {}
    for name, default in PORTS.items():
        # Above the defaults and below the range of ports of outgoing connections.
        candidates = (default, *range(default + 10000, 32000))
        ports[name] = next(port for port in candidates if port not in avoid and is_free(address, port))
        avoid.add(ports[name])
    return ports


def is_free(address: str, port: int) -> bool:
    """Return whether a process could listen on this port now."""
    with socket.socket(socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def _exists(link: str) -> bool:
    return (_LINKS / link).exists()


def _names(folder: Path, prefix: str) -> list[str]:
    return [entry.name for entry in folder.glob(f"{prefix}*")] if folder.is_dir() else []


async def _ip(*arguments: str) -> str:
    try:
        process = await asyncio.create_subprocess_exec(
            "ip",
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except FileNotFoundError as error:
        raise SandboxError(
            "network namespaces need the program `ip`: install it (Debian, Ubuntu: apt-get install iproute2), or use"
            " --network loopback"
        ) from error
    output, errors = await process.communicate()
    if process.returncode:
        raise SandboxError(f"`ip {' '.join(arguments)}` failed: {errors.decode(errors='replace').strip()}")
    return output.decode()
