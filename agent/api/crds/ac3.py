"""Group ac3.redhat.com, as structural schemas: exactly the fields of AC3's network operator, and conditions."""

from typing import Any

from agent.api.crds.definition import AGE, READY, column, crd
from agent.api.crds.schema import STATUS, Schema, fields, items, resource, text, whole
from agent.api.kinds import MULTI_CLUSTER_NETWORKS


def crds() -> list[dict[str, Any]]:
    """Return the CRD of MultiClusterNetworks."""
    message = '.status.conditions[?(@.type=="Ready")].message'
    columns = [*READY, column("Message", message, "What to do about it.", priority=1), AGE]
    return [crd(MULTI_CLUSTER_NETWORKS, [], _network(), columns)]


def _network() -> Schema:
    spec = fields("Which clusters call which Services of others.", {"links": _links()}, required=["links"])
    previous = {"previousLinks": _links(), **STATUS["properties"]}
    return resource(
        "Services of some clusters, for callers in others.",
        {"spec": spec, "status": fields("What has become of it.", previous)},
    )


def _links() -> Schema:
    service = fields(
        "A Service.", {"name": text("Its name."), "port": whole("A port of it.")}, required=["name", "port"]
    )
    link = fields(
        "Services of one cluster, for callers in another one.",
        {
            "sourceCluster": text("Cluster that the Services are in, as its Target has it; this one is local-cluster."),
            "targetCluster": text("Cluster of the callers."),
            "sourceNamespace": text("Namespace of the Services."),
            "targetNamespace": text("Namespace of the callers."),
            "applications": items("Deployments whose Services are meant.", text("Name of a Deployment.")),
            "services": items("Services that are meant.", service),
        },
        required=["sourceCluster", "targetCluster", "sourceNamespace", "targetNamespace"],
    )
    return items("Links, each between two clusters.", link)
