"""How a delegate ended: what its proxy pod tells of that while both are let go, and after. Pure."""

from collections.abc import Mapping
from typing import Any

from agent.model.diff import merge_patch
from agent.model.podranges import PodRanges
from agent.model.podstate import has_ended, other_finalizers
from agent.model.status import proxy_status, restarts_always


def is_done(pod: Mapping[str, Any]) -> bool:
    """Whether a proxy pod, or the pod that a chaperon tells of, has done its work: no loss has it done once more."""
    return has_ended(pod) and not restarts_always(pod)


def told(proxy: dict[str, Any], chaperon_status: Mapping[str, Any], ranges: PodRanges) -> dict[str, Any]:
    """Merge patch of the status of a proxy pod that is let go; {} where nothing is to be written.

    A write only where somebody may want to know: of pods that are not started again whatever happens, and of pods that
    others hold, as Jobs do.
    """
    held = bool(other_finalizers(proxy["metadata"].get("finalizers")))
    if not proxy["spec"].get("nodeName") or (restarts_always(proxy) and not held):
        return {}
    if has_ended(proxy) and not has_ended({"status": chaperon_status}):
        return {}
    return merge_patch(proxy.get("status") or {}, proxy_status(proxy, chaperon_status, ranges))


def unknown(proxy: Mapping[str, Any]) -> dict[str, Any]:
    """Status of a proxy pod that others hold and whose delegate is gone without having told how it ended.

    Jobs with a failure policy, or that replace failed pods only, hold the pod until it is in a last phase; {} if it is
    in one, or never had a node.
    """
    if not proxy["spec"].get("nodeName") or has_ended(proxy):
        return {}
    message = "the pod was deleted, and its delegate has ended"
    return {"phase": "Failed", "reason": "DelegateGone", "message": message}
