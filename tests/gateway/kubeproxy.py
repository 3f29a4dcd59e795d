"""Endpoints in the rules that kube-proxy of a real node has written."""

import re

from agent.api.kinds import ENDPOINT_SLICES
from agent.api.names import LABEL_SERVICE_NAME
from hack.lab.sandbox import faults
from tests.e2e.fleet import Fleet
from tests.gateway.realnodes import PATIENCE_SECONDS


async def settled(fleet: Fleet, cluster: str, namespace: str, service: str, count: int | None = None) -> None:
    """Wait until kube-proxy of a cluster routes a Service to all of its ready endpoints and to no others.

    :param count: the expected number of ready endpoints; None for any
    """
    rule = re.compile(rf'"{namespace}/{service}(?::[^ ]*)? -> ([^"]+)"')

    async def probe() -> bool:
        labels = f"{LABEL_SERVICE_NAME}={service}"
        slices = await fleet.clients[cluster].list(ENDPOINT_SLICES, namespace, labels=labels)
        ready = {
            f"{endpoint['addresses'][0]}:{port['port']}"
            for slice in slices
            for endpoint in slice.get("endpoints") or ()
            for port in slice.get("ports") or ()
            if endpoint["conditions"]["ready"]
        }
        rules = await faults.inside(fleet.sandbox[cluster].runner.cluster, "iptables-save", "--table=nat")
        return ready == set(rule.findall(rules)) and count in (None, len(ready))

    what = f"kube-proxy of {cluster} leads to what slices say of {service}"
    await fleet.until(what, probe, about=namespace, seconds=PATIENCE_SECONDS)
