"""Demand of a pod, from its spec: the part that is equal for all pods of one template."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from agent.api import names
from agent.model import additions, constraints
from agent.model.errors import InvalidPod
from agent.model.manifest import FIELD
from agent.model.requests import host_ports, requests
from agent.ranking import resources
from agent.ranking.snapshot import PodTemplate

CONSTRAINTS = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints")


def template_of(namespace: str, spec: Mapping[str, Any], source: Mapping[str, Any]) -> PodTemplate:
    """Return the template of a proxy pod with this spec.

    :param source: constraints for the target's own nodes
    """
    return PodTemplate(
        namespace=namespace,
        proxy={key: spec[key] for key in CONSTRAINTS if spec.get(key)},
        source=source,
        requests=requests(spec),
        limits=resources.limits(spec),
        ports=host_ports(spec),
        images=resources.images(spec),
        terminating=spec.get("activeDeadlineSeconds") is not None,
        best_effort=resources.best_effort(spec),
        priority_class=spec.get("priorityClassName") or "",
        specified=resources.specified(spec),
    )


class Demand(NamedTuple):
    """Constraints of a proxy pod, by the nodes that they apply to."""

    spec: Mapping[str, Any]
    """Spec of the pod with the constraints for virtual nodes."""
    source: dict[str, Any]
    """Constraints for the target's own nodes."""


def demand_of(spec: Mapping[str, Any], source: dict[str, Any]) -> Demand:
    """Return the constraints of a proxy pod with this spec; added ones apply to the target's own nodes.

    :param source: the pod as its user sent it, from the manifest
    :raises InvalidPod: if they cannot be read, or contradict each other
    """
    kept = kept_constraints(source["metadata"].get("annotations"), source["spec"])
    if not additions.may_be(spec):
        return Demand(spec, kept)
    added = additions.of(spec, source)
    wanted = additions.with_additions(kept, added)
    if added.tolerations:
        wanted["tolerations"] = [*wanted.get("tolerations", ()), *added.tolerations]
    return Demand(additions.without_additions(spec, added), wanted)


def kept_constraints(annotations: Mapping[str, str] | None, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constraints of a source pod that apply to the target's own nodes, and the scheduler that it names.

    :raises InvalidPod: if they cannot be read
    """
    scheduler = {"schedulerName": spec["schedulerName"]} if isinstance(spec.get("schedulerName"), str) else {}
    if names.annotation(annotations, names.USE_CONSTRAINTS) is not None:
        return scheduler
    try:
        found = constraints.of(spec)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidPod(FIELD, f"its constraints cannot be read: {error}") from error
    return scheduler | {key: found[key] for key in ("nodeSelector", "affinity", "tolerations") if found.get(key)}
