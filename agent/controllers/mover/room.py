"""Whether a target has room for one more pod, by what virtual nodes tell: asked before a pod is evicted. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from agent.api import names
from agent.model.quantity import InvalidQuantity
from agent.model.requests import amounts, requests

Raw = Mapping[str, Any]

_EFFECTS = ("NoSchedule", "NoExecute")


def room(pod: Raw, nodes: Iterable[Raw]) -> str:
    """Why none of these virtual nodes has room for a pod like this one, empty if one has, as far as is known.

    What their target has left is compared all in all: whether a single node there takes it, its scheduler finds out.
    """
    try:
        wanted = requests(pod.get("spec") or {})
    except InvalidQuantity:
        return ""
    reasons = [_refusal(wanted, node) for node in nodes]
    if not reasons:
        return "there is no other target that it may go to"
    return "" if "" in reasons else "; ".join(sorted(filter(None, reasons)))


def _refusal(wanted: Mapping[str, int], node: Raw) -> str:
    metadata, spec = node["metadata"], node.get("spec") or {}
    if spec.get("unschedulable"):
        return f"{metadata['name']} is cordoned"
    taints = (taint for taint in spec.get("taints") or () if taint.get("effect") in _EFFECTS)
    closed = next((taint["key"] for taint in taints if taint["key"] != names.PROVIDER_KEY), "")
    if closed:
        return f"{metadata['name']} has the taint {closed}"
    text = (metadata.get("annotations") or {}).get(names.ANNOTATION_FREE)
    if not text:
        return ""
    try:
        free = amounts(msgspec.json.decode(text, type=dict[str, str]))
    except (msgspec.DecodeError, InvalidQuantity):
        return ""
    short = sorted(name for name, amount in wanted.items() if amount > free.get(name, 0))
    return f"{metadata['name']} has not enough {', '.join(short)}" if short else ""
