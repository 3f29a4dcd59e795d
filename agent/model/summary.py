"""What a cluster tells of its nodes: sums, common labels, and shapes of nodes (wire contract, 8.3; ruling 11).

How much it tells is for its administrator to say:
- `full`: everything, also what is free on the nodes of each shape;
- `minimal`: what Admiralty tells, sums and the labels on whose value all nodes that have them agree, and nothing
  about single nodes;
- `sums`: sums alone.
What the administrator says about the cluster as a whole (its properties) is told at every level.
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
    """UID of the cluster that a summary with these annotations tells; empty where it tells none, or nonsense."""
    return checked_uid(annotations.get(names.ANNOTATION_CLUSTER_UID, ""))


def checked_uid(uid: str) -> str:
    """A UID of a cluster, empty where it cannot be one."""
    return uid if _UID.fullmatch(uid) else ""


class Survey(msgspec.Struct, frozen=True):
    """What a summary says of nodes, whatever runs on them."""

    labels: dict[str, str]
    capacity: dict[str, str]
    allocatable: dict[str, str]
    alike: tuple[Alike, ...] | None
    """None where the level of detail says nothing about single nodes."""
    pods: pod_networks.Networks = ()
    """Pod networks; none at the lower levels of detail."""
    features: tuple[str, ...] = ()
    """Features that all nodes declare; none at the lower levels of detail."""


def survey(nodes: Iterable[dict[str, Any]], detail: Detail = "full") -> Survey:
    """What to say of these nodes; virtual nodes do not count.

    :raises InvalidQuantity: if a node's status has none; no API server lets that pass
    """
    known = KnownNodes()
    for number, node in enumerate(nodes):
        known.put(node, str(number))
    return survey_of(known, detail)


def survey_of(known: KnownNodes, detail: Detail) -> Survey:
    """The same of nodes that are known already."""
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
    """The ClusterSummary of a cluster with these nodes.

    :param version: of the agent that tells
    :param answers: what sources may ask of it, separated by commas
    :param cluster_uid: UID of the cluster's kube-system namespace
    :param properties: of the cluster, valid as labels; where its nodes agree on a label of that name, theirs counts
    :param taken: what pods take, by node; None where that is not known, and so nothing is said of what is free
    :param delegates: how many pods among those are delegates, by the UID of the cluster that they are from
    :param used: what nodes use together; None where that is not known, or nobody is to know
    :param claims: of the cluster (`clusterclaims`)
    :param agent: address of the agent's pod and the port at which it says whose it is
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
    """What is told at every level of detail."""
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
    """What is told at the highest level of detail alone."""
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
    """`survey` and `summary` in one."""
    return summary(survey(nodes, detail), version=version, properties=properties, taken=taken, delegates=delegates)
