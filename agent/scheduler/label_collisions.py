"""Events on proxy pods whose labels become equal keys when selectors are rewritten as in Admiralty."""

from collections.abc import Mapping
from typing import Any

from agent.api import names
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.model import baseline
from agent.model.abridged import abridged
from agent.model.namespaces import service_reroute
from agent.model.relabel import collisions

REASON = "LabelsCollide"
_SHOWN = 3
_VERSION = names.ANNOTATION_AGENT_VERSION.encode()


def report(deps: Deps, proxy: Mapping[str, Any], target: Target) -> None:
    """Emit the event if labels collide, and the target's agent is Admiralty's or Services are always rerouted."""
    summary = target.summaries.store.get(("", names.SUMMARY_NAME))
    is_admiraltys = summary is not None and _VERSION not in summary.raw
    annotations = deps.namespaces.annotations(proxy["metadata"]["namespace"])
    if not is_admiraltys and (service_reroute(annotations) or deps.settings.service_reroute) != "always":
        return
    expression = names.annotation(proxy["metadata"].get("annotations"), names.NO_PREFIX_REGEXP)
    if found := collisions(baseline.labels(proxy), expression):
        deps.recorder.event(dict(proxy), "Warning", REASON, message(found, target.title))


def message(found: Mapping[str, list[str]], target: str) -> str:
    """Return the message for the user: keys, consequence, remedy."""
    words = [f"{' and '.join(keys)} become {key} with the value of {keys[0]}" for key, keys in sorted(found.items())]
    return (
        f"{target}: labels of this pod collide there: {abridged(words, _SHOWN)}; Services that select by the others"
        f" do not find its delegate: annotate the pod {names.SHORT_PREFIX}{names.NO_PREFIX_REGEXP} so that these keep"
        " their keys, and what selects them, too"
    )
