"""Group multicluster.flotilla, as structural schemas: Services across clusters."""

from typing import Any

from agent.api.crds import gatewayhosts
from agent.api.crds.definition import AGE, MESSAGE, READY, column, crd
from agent.api.crds.schema import STATUS, Schema, fields, items, keyed, resource, text, whole
from agent.api.kinds import GATEWAY_PEERS, SERVICE_LINKS
from agent.api.names.links import ADDRESS_LIMIT, ADDRESSES_LIMIT, AFFINITIES, CA_LIMIT, PEER_SERVICES_LIMIT

_CLUSTER: Schema = text(
    "Name of a cluster, as its Target has it; this one is local-cluster.", minLength=1, maxLength=253
)
_SERVICE_NAME: dict[str, Any] = {"minLength": 1, "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}
_LIMIT = 1024
"""Most clusters in a list, which bounds the cost of validation."""


def crds() -> list[dict[str, Any]]:
    """Return the CRDs of ServiceLinks and GatewayPeers."""
    return [
        crd(SERVICE_LINKS, ["svcl"], _service_link(), _COLUMNS),
        crd(GATEWAY_PEERS, ["gwp"], _gateway_peer(), _PEER_COLUMNS),
    ]


_COLUMNS = [
    column("Service", ".spec.service", "The Service whose endpoints are told."),
    *READY,
    column("From", ".spec.from", "Clusters whose endpoints are offered; empty: all that have any."),
    column("Clusters", ".status.clusters[*].cluster", "Clusters whose callers reach endpoints of others."),
    MESSAGE,
    AGE,
]


_PEER_COLUMNS = [
    column("Connected", '.status.conditions[?(@.type=="Connected")].status', "Whether it answers the own gateways."),
    column("Reason", '.status.conditions[?(@.type=="Connected")].reason', "Why it does or not."),
    column("Addresses", ".spec.addresses", "Where its gateways are called."),
    column("Message", '.status.conditions[?(@.type=="Connected")].message', "What to do about it.", priority=1),
    AGE,
]


_CONSUMER = fields(
    "Callers in one namespace of one cluster.",
    {
        "cluster": _CLUSTER,
        "namespace": text("Their namespace; not set: that of this object.", **_SERVICE_NAME),
    },
    required=["cluster"],
)


def _service_link() -> Schema:
    spec = fields(
        "Which endpoints are told to whom. What all objects of a Service say together is done.",
        {
            "service": text("Name of the Service, in this namespace; not set: that of this object.", **_SERVICE_NAME),
            "ports": items(
                "Ports of the Service; not set: all.",
                whole("A port.", minimum=1, maximum=65535),
                minItems=1,
                maxItems=100,
                **{"x-kubernetes-list-type": "set"},
            ),
            "from": items(
                "Clusters whose endpoints are offered; not set: all that have any.",
                _CLUSTER,
                minItems=1,
                maxItems=_LIMIT,
                **{"x-kubernetes-list-type": "set"},
            ),
            "to": items(
                "Whose callers reach them; not set: those of this namespace in every cluster.",
                _CONSUMER,
                minItems=1,
                maxItems=_LIMIT,
                **{"x-kubernetes-list-type": "atomic"},
            ),
            "driver": text("Network driver of every pair; not set: as Targets have it.", minLength=1, maxLength=253),
            "affinity": text("Whose endpoints callers prefer.", enum=list(AFFINITIES)),
        },
    )
    return resource(
        "Endpoints that a Service has in some clusters, for callers in others.", {"spec": spec, "status": _status()}
    )


def _status() -> Schema:
    one = fields(
        "Callers in one cluster, and those clusters whose endpoints reach them in the same way.",
        {
            "cluster": _CLUSTER,
            "namespace": text("Namespace of the callers."),
            "driver": text("Network driver; none where there is no way."),
            "reason": text("Why it works or not, as one word for programs."),
            "from": items("Clusters whose endpoints they are.", _CLUSTER, **{"x-kubernetes-list-type": "atomic"}),
            "ready": text("Whether callers reach the endpoints.", enum=["True", "False", "Unknown"]),
            "message": text("Why, and what to do about it."),
            "endpoints": whole("How many endpoints of these clusters are ready.", minimum=0),
        },
        required=["cluster", "namespace", "driver", "reason", "ready"],
    )
    return fields(
        "What the agent of this cluster sees.",
        {
            "host": text("Name by which callers reach the Service."),
            "clusters": items(
                "Who reaches whom.",
                one,
                **keyed("cluster", "namespace", "driver", "reason"),
            ),
            **STATUS["properties"],
        },
    )


_PORT: Schema = whole("Number of a port of the Service.", minimum=1, maximum=65535)
_PORTS: Schema = items(
    "Its ports.",
    fields("A port of the Service.", {"name": text("Its name.", maxLength=63), "port": _PORT}, required=["port"]),
    minItems=1,
    maxItems=100,
)
_SERVICE: Schema = text("Name of the Service, in this namespace.", **_SERVICE_NAME)
_LOCAL_AFFINITY: Schema = items(
    "Services whose callers are sent to no other cluster while this one has ready endpoints of them.",
    _SERVICE,
    maxItems=PEER_SERVICES_LIMIT,
    **{"x-kubernetes-list-type": "set"},
)
_GATEWAY_PEER = (
    "Another cluster, for the gateways of this one, in one namespace. The right to create one decides which clusters"
    " reach the Services of the namespace that the same source shares."
)


def _called(what: str) -> Schema:
    ready = whole("Number of its ready endpoints there.", minimum=0)
    one = fields("A Service.", {"name": _SERVICE, "ports": _PORTS, "ready": ready}, required=["name", "ports"])
    return items(what, one, maxItems=PEER_SERVICES_LIMIT, **keyed("name"))


def _offered(what: str) -> Schema:
    one = fields("A Service.", {"name": _SERVICE, "ports": _PORTS}, required=["name", "ports"])
    return items(what, one, maxItems=PEER_SERVICES_LIMIT, **keyed("name"))


def _gateway_peer() -> Schema:
    spec = fields(
        "Services that gateways of this cluster call there, and that it may call in this cluster.",
        {
            "uid": text("UID of the cluster: that of its namespace kube-system.", minLength=1, maxLength=127),
            "ca": text("CA of its gateways' certificates (PEM).", minLength=1, maxLength=CA_LIMIT),
            "addresses": items(
                "Addresses of its gateways, HOST:PORT; empty: it calls others, and cannot be called.",
                text("HOST:PORT.", minLength=1, maxLength=ADDRESS_LIMIT),
                maxItems=ADDRESSES_LIMIT,
                **{"x-kubernetes-list-type": "atomic"},
            ),
            "services": _called("Services that this cluster calls there, with their TCP ports."),
            "offered": _offered("Services of this cluster that it may call, with their TCP ports."),
            "udpServices": _called("Services that this cluster calls there, with their UDP ports."),
            "udpOffered": _offered("Services of this cluster that it may call, with their UDP ports."),
            "localAffinity": _LOCAL_AFFINITY,
            **gatewayhosts.fields_of_spec(_SERVICE),
        },
        required=["uid", "ca"],
    )
    return resource(
        _GATEWAY_PEER,
        {"spec": spec, "status": _peer_status()},
        required=["spec"],
    )


def _peer_status() -> Schema:
    local = fields(
        "A port of the Service.",
        {"port": _PORT, "locals": items("Ports of the own gateways that stand for it.", whole("A port."))},
        required=["port"],
    )
    service = fields("A Service.", {"name": text("Its name."), "ports": items("Its ports.", local)}, required=["name"])
    says = fields(
        "What a pod of the own gateways says.",
        {
            "reason": text("Whether the peer answers it."),
            "message": text("What is wrong with this object."),
            "healthy": whole("How many of the peer's addresses answer.", minimum=0),
            "total": whole("How many it has.", minimum=0),
            "listens": items("Local ports at which it listens.", whole("A port.")),
        },
    )
    return fields(
        "What the agent of this cluster and its gateways see.",
        {
            "services": items("What stands for the Services.", service, **keyed("name")),
            "udpServices": items("What stands for UDP ports of the Services.", service, **keyed("name")),
            **gatewayhosts.FIELDS_OF_STATUS,
            "gateways": {"type": "object", "description": "By pod of the own gateways.", "additionalProperties": says},
            **STATUS["properties"],
        },
    )
