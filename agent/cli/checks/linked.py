"""Findings from this cluster's ServiceLinks and GatewayPeers: unreachable endpoints and gateways. Pure."""

from collections.abc import Iterable, Iterator

from agent.api.conditions import condition_of
from agent.cli.checks.finding import Finding, ok, warn
from agent.cli.checks.view import Raw, View
from agent.model.abridged import abridged
from agent.model.servicelinks import CONNECTED, PROGRAMMED, READY

_SHOWN = 3
_NOBODY = "no agent has said anything about it"
_SEE = "see that the agent of this cluster leads, and has the flag {}"
_PODS = "NoEndpoints"
"""Reason of a Service without a ready pod: a fault of its pods, and none of the installation."""


def links(view: View) -> Iterator[Finding]:
    """Check that callers reach the endpoints of ServiceLinks, judging by the links' conditions."""
    bad, well = _judge(view.links, READY, _SEE.format("--service-links"))
    for (reason, message), objects in bad.items():
        if reason != _PODS:
            yield warn(f"ServiceLink {_named(objects)}", f"endpoints are not reached ({reason})", message)
    if well:
        yield ok("links", f"{well} of {len(view.links)} ServiceLinks work")


def gateways(view: View) -> Iterator[Finding]:
    """Check that the gateways of other clusters answer the local ones."""
    bad, well = _judge(view.peers, CONNECTED, _SEE.format("--gateway"))
    for (reason, message), objects in bad.items():
        yield warn(f"GatewayPeer {_named(objects)}", f"its gateways are not reached ({reason})", message)
    for (reason, message), objects in _judge(view.peers, PROGRAMMED, _SEE.format("--gateway"))[0].items():
        if reason != _NOBODY:
            yield warn(f"GatewayPeer {_named(objects)}", f"some of its Services are not called ({reason})", message)
    for message, objects in _limited(view.peers).items():
        yield warn(f"GatewayPeer {_named(objects)}", "gateways leave out a part of it", message)
    if well:
        yield ok("gateways", f"{well} of {len(view.peers)} GatewayPeers answer")


def _limited(peers: Iterable[Raw]) -> dict[str, list[Raw]]:
    """Return GatewayPeers with a message in condition Connected although it is True, by that message."""
    found = dict[str, list[Raw]]()
    for obj in peers:
        said = condition_of(obj, CONNECTED) or {}
        if said.get("status") == "True" and said.get("message"):
            found.setdefault(str(said["message"]), []).append(obj)
    return found


def _judge(objects: Iterable[Raw], type: str, remedy: str) -> tuple[dict[tuple[str, str], list[Raw]], int]:
    """Return objects whose condition is not True, grouped by reason and message, and the number of healthy ones."""
    bad, well = dict[tuple[str, str], list[Raw]](), 0
    for obj in objects:
        said = condition_of(obj, type)
        if said is not None and said["status"] == "True":
            well += 1
        elif said is None:
            bad.setdefault((_NOBODY, remedy), []).append(obj)
        else:
            bad.setdefault((str(said.get("reason", "")), str(said.get("message", ""))), []).append(obj)
    return bad, well


def _named(objects: list[Raw]) -> str:
    return abridged(sorted(f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in objects), _SHOWN)
