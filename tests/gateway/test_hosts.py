"""Hosts of a headless Service through two clusters' gateways, with the real Envoy on loopback."""

import functools

import msgspec
import pytest

from agent.model.gatewaypeer import Called, Offered, Service, server_name
from hack.lab.sandbox.gateways import GatewayPod
from tests.gateway.lab import LOCAL, SPACE, UNUSED, address, ask, dial, peer, saying, serving
from tests.waiting import until

pytestmark = pytest.mark.timeout(120)

DB, PORT = "db", 5432
HOSTS = ("db-0", "db-1", "")
PORTS = dict(zip(HOSTS, (LOCAL, UNUSED, UNUSED + 1), strict=True))


async def test_every_host_has_a_name_of_its_own_by_which_its_pods_alone_are_reached() -> None:
    async with (
        GatewayPod("uid-a", address(), drain_seconds=1) as a,
        GatewayPod("uid-b", address(), drain_seconds=1) as b,
        serving(saying("this is db-0"), b.address) as first,
        serving(saying("this is db-1"), b.address) as second,
        serving(saying("this is "), b.address) as others,
    ):
        services = tuple(Called(DB, PORT, (local,), host=host) for host, local in PORTS.items())
        a.tell([msgspec.structs.replace(peer(b), services=services)])
        offered = tuple(Offered(DB, PORT, host=host) for host in HOSTS)
        pods = zip(HOSTS, (first, second, others), strict=True)
        b.tell(
            [msgspec.structs.replace(peer(a), offered=offered)],
            [Service(SPACE, DB, PORT, (at,), host=host) for host, at in pods],
        )
        await until(lambda: a.is_ready(f"{SPACE}/{b.uid}"), what="a's gateway reaches b's")
        for host, local in PORTS.items():

            async def answers(host: str = host, local: int = local) -> bool:
                return await ask(a.address, local, b"who is there") == f"this is {host}".encode()

            await until(answers, what=f"the pod of {host or 'no host'} answers")
        # No client gets in by the name that a Service with a cluster IP would have, or by another host's name.
        name = functools.partial(server_name, SPACE, DB, PORT, a.uid, b.uid)
        for refused in (name(), name(host="db-2")):
            assert await dial(b, refused, a.issue()) == b""
        assert await dial(b, name(host="db-1"), a.issue()) != b""
        await until(lambda: b.status()["refused"].get("NotLinked") == 2, what="they are counted")
