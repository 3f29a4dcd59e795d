"""Changes of a proxy pod that its delegate has applied, as source and target record them on the chaperon."""

from collections.abc import Mapping
from typing import Any

from agent.api.names import following
from agent.model import baseline
from agent.model.livechanges import told
from agent.model.podconditions import Followed

Raw = dict[str, Any]


def followed(chaperon: Mapping[str, Any]) -> Followed:
    """Return the readiness gates and the generation of the proxy pod that the delegate has applied."""
    known = told(chaperon)
    text = (chaperon["metadata"].get("annotations") or {}).get(following.ANNOTATION_OBSERVED, "")
    born: int = known.get(baseline.BORN, 1)
    # A user may have written the annotation: a number too long for a generation is ignored.
    generation = int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else born
    return Followed(known.get("gates", ()), min(generation, known.get("generation", born)))


def observed(changed: Raw, pod: Mapping[str, Any]) -> str:
    """Return the generation of the proxy pod that a delegate's kubelet has observed; empty if it has not yet.

    :param changed: changes of the proxy pod that the delegate has applied completely
    :param pod: the delegate
    """
    generation, there = changed.get("generation"), (pod.get("status") or {}).get("observedGeneration") or 0
    if not generation or not there or there < (pod["metadata"].get("generation") or 0):
        return ""
    return str(generation)
