"""Links that drop packets in one direction without an error for the sender (needs root and iptables)."""

from typing import Literal

from hack.lab.sandbox.errors import NoNamespacesError
from hack.lab.sandbox.faults import inside
from hack.lab.sandbox.ipfamilies import version_of
from hack.lab.sandbox.plan import ClusterPlan

Lost = Literal["requests", "replies"]
"""Direction of a loss between a cluster and a peer: requests to the cluster, or its replies."""


async def swallow(cluster: ClusterPlan, peer: ClusterPlan, lost: Lost) -> None:
    """Drop the requests of `peer` to a cluster, or the replies; the cluster executes a request without reply."""
    await inside(cluster, _program(peer), "--wait", "--insert", *_rule(cluster, peer, lost))


async def let_through(cluster: ClusterPlan, peer: ClusterPlan, lost: Lost) -> None:
    """Undo `swallow`."""
    await inside(cluster, _program(peer), "--wait", "--delete", *_rule(cluster, peer, lost))


def _program(peer: ClusterPlan) -> str:
    return "ip6tables" if version_of(peer.address) == 6 else "iptables"


def _rule(cluster: ClusterPlan, peer: ClusterPlan, lost: Lost) -> list[str]:
    if not cluster.namespace:
        raise NoNamespacesError("a link can only lose packets where clusters have network namespaces, which takes root")
    chain = ["INPUT", "--source"] if lost == "requests" else ["OUTPUT", "--destination"]
    return [*chain, peer.address, "--jump", "DROP"]
