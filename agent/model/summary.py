"""ClusterSummary of a cluster's nodes: sums, common labels, shapes of nodes (wire contract, 8.3; ruling 11).

The cluster's administrator chooses the level of detail:
- `full`: everything, including the free capacity on nodes of each shape;
- `minimal`: the same as Admiralty: sums, and labels that have one value on all nodes that have them, but nothing
  about single nodes;
- `sums`: only sums.

Properties that the administrator sets for the whole cluster are published at every level.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

import msgspec

from agent.api import names
from agent.api.kinds import CLUSTER_SUMMARIES
from agent.api.names import givingup, links
from agent.api.names.ocm import CLAIMS, USED
from agent.model import nodefeatures, nodeshapes, pod_networks
from agent.model.free_capacity import Taken
from agent.model.knownnodes import KnownNodes
from agent.model.measured import write_used
from agent.model.nodeshapes import Alike, encode
from agent.model.requests import Amounts

Detail = Literal["full", "minimal", "sums"]
DETAILS: tuple[Detail, ...] = get_args(Detail)
_UID = re.compile(r"[0-9A-Za-z._-]{1,64}", re.ASCII)


def told_uid(annotations: Mapping[str, str]) -> str:
    """Return the cluster UID in a summary's annotations; empty if it is missing or invalid."""
    return checked_uid(annotations.get(names.ANNOTATION_CLUSTER_UID, ""))


def checked_uid(uid: str) -> str:
    """Return a cluster's UID; empty if it is not a valid one."""
    return uid if _UID.fullmatch(uid) else ""


class Survey(msgspec.Struct, frozen=True):
    """Properties of the nodes for a summary, regardless of the pods on them."""

    labels: dict[str, str]
    capacity: dict[str, str]
    allocatable: dict[str, str]
    alike: tuple[Alike, ...] | None
    """None if the level of detail excludes single nodes."""
    pods: pod_networks.Networks = ()
    """Pod networks; none at the lower levels of detail."""
    features: tuple[str, ...] = ()
    """Features that all nodes declare; none at the lower levels of detail."""


def survey(nodes: Iterable[dict[str, Any]], detail: Detail = "full") -> Survey:
    """Summarize these nodes; virtual nodes do not count.

    :raises InvalidQuantity: if a node's status has an invalid quantity, which no API server accepts
    """
    known = KnownNodes()
    for number, node in enumerate(nodes):
        known.put(node, str(number))
    return survey_of(known, detail)


def survey_of(known: KnownNodes, detail: Detail) -> Survey:
    """Summarize nodes that are cached in `known`."""
    capacity, allocatable = known.totals()
    full = detail == "full"
    return Survey(
        labels=known.common_labels() if detail != "sums" else {},
        capacity=capacity,
        allocatable=allocatable,
        alike=tuple(known.alike()) if full else None,
        pods=known.networks() if full else (),
        features=known.features() if full else (),
    )


def summary(
    surveyed: Survey,
    *,
    version: str = "",
    answers: str = "",
    cluster_uid: str = "",
    properties: Mapping[str, str] | None = None,
    taken: Mapping[str, Taken] | None = None,
    delegates: Mapping[str, int] | None = None,
    used: Amounts | None = None,
    claims: str = "",
    agent: tuple[str, int] = ("", 0),
) -> dict[str, Any]:
    """Return the ClusterSummary of a cluster with these nodes.

    :param version: of the agent that publishes it
    :param answers: requests that the agent supports from sources, separated by commas
    :param cluster_uid: UID of the cluster's kube-system namespace
    :param properties: of the cluster, valid as labels; a common label of its nodes takes precedence
    :param taken: resources that pods use, by node; None if unknown, then free capacity is not published
    :param delegates: number of delegates among those pods, by UID of their source cluster
    :param used: total usage of the nodes; None if it is unknown or not to be published
    :param claims: of the cluster (`clusterclaims`)
    :param agent: address of the agent's pod, and the port at which it answers with its cluster's UID
    """
    own = {key: value for key, value in sorted((properties or {}).items()) if key not in surveyed.labels}
    annotations = _of_nodes(surveyed, taken, delegates, agent)
    if used is not None:
        annotations[USED] = write_used(used)
    if own:
        annotations[names.ANNOTATION_CLUSTER_PROPERTIES] = encode(list(own))
    annotations |= _of_agent(version, answers, cluster_uid, claims)
    return {
        "apiVersion": CLUSTER_SUMMARIES.api_version,
        "kind": CLUSTER_SUMMARIES.name,
        "metadata": {"name": names.SUMMARY_NAME, "labels": {**surveyed.labels, **own}, "annotations": annotations},
        "capacity": surveyed.capacity,
        "allocatable": surveyed.allocatable,
    }


def _of_agent(version: str, answers: str, cluster_uid: str, claims: str) -> dict[str, str]:
    """Return annotations that every level of detail publishes."""
    said = {
        CLAIMS: claims,
        names.ANNOTATION_AGENT_VERSION: version,
        givingup.ANNOTATION_AGENT_ANSWERS: answers,
        names.ANNOTATION_CLUSTER_UID: cluster_uid,
    }
    return {key: value for key, value in said.items() if value}


def _of_nodes(
    surveyed: Survey, taken: Mapping[str, Taken] | None, delegates: Mapping[str, int] | None, agent: tuple[str, int]
) -> dict[str, str]:
    """Return annotations that only the level `full` publishes."""
    if surveyed.alike is None:
        return {}
    annotations = nodefeatures.write(surveyed.features)
    if (shapes := nodeshapes.write_shapes(surveyed.alike, taken)) is not None:
        annotations[names.ANNOTATION_NODE_SHAPES] = shapes
        if taken is not None:
            annotations[names.ANNOTATION_COUNTED] = nodeshapes.write_counted(delegates)
    if networks := pod_networks.write(surveyed.pods, *agent):
        annotations[links.ANNOTATION_NETWORKS] = networks
    return annotations


def summarise(
    nodes: Iterable[dict[str, Any]],
    *,
    detail: Detail = "full",
    version: str = "",
    properties: Mapping[str, str] | None = None,
    taken: Mapping[str, Taken] | None = None,
    delegates: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Return the ClusterSummary of nodes: `survey` and `summary` in one call."""
    return summary(survey(nodes, detail), version=version, properties=properties, taken=taken, delegates=delegates)
