"""Labels of a pod that become one in a target whose agent is Admiralty's, as an event on the proxy pod."""

from collections.abc import Mapping
from typing import Any

from agent.api import names
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.model import baseline
from agent.model.abridged import abridged
from agent.model.relabel import collisions

REASON = "LabelsCollide"
_SHOWN = 3
_VERSION = names.ANNOTATION_AGENT_VERSION.encode()


def report(deps: Deps, proxy: Mapping[str, Any], target: Target) -> None:
    """Write the event where labels collide and the target's agent is Admiralty's, which reports no version."""
    summary = target.summaries.store.get(("", names.SUMMARY_NAME))
    if summary is None or _VERSION in summary.raw:
        return
    expression = names.annotation(proxy["metadata"].get("annotations"), names.NO_PREFIX_REGEXP)
    if found := collisions(baseline.labels(proxy), expression):
        deps.recorder.event(dict(proxy), "Warning", REASON, message(found, target.title))


def message(found: Mapping[str, list[str]], target: str) -> str:
    """Return what users are told: keys, consequence, remedy."""
    words = [f"{' and '.join(keys)} become {key} with the value of {keys[0]}" for key, keys in sorted(found.items())]
    return (
        f"{target}: labels of this pod collide there: {abridged(words, _SHOWN)}; what Admiralty selects by the others"
        f" does not find its delegate: annotate the pod {names.SHORT_PREFIX}{names.NO_PREFIX_REGEXP} so that these keep"
        " their keys, and what selects them, too"
    )
