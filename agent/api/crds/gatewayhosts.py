"""Fields of GatewayPeers for hosts of headless Services, as structural schemas."""

from agent.api.crds.schema import Schema, fields, items, text, whole
from agent.api.names.links import PEER_SERVICES_LIMIT

_ATOMIC = {"x-kubernetes-list-type": "atomic"}
_PORT: Schema = whole("Number of a port of its pods.", minimum=1, maximum=65535)
_HOST: Schema = text(
    "Host name of pods, as in their `hostname`; empty: all pods without one.",
    maxLength=63,
    pattern="^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$",
)
_PORTS: Schema = items(
    "Ports of its pods, which callers use.",
    fields("A port.", {"name": text("Its name.", maxLength=63), "port": _PORT}, required=["port"]),
    minItems=1,
    maxItems=100,
    **_ATOMIC,
)


def fields_of_spec(service: Schema) -> dict[str, Schema]:
    """:param service: schema of the name of a Service"""
    ready = whole("Number of its pods that are ready there.", minimum=0)
    left = whole("Number of hosts of the Service that are left out.", minimum=0)
    return {
        "headless": _hosts(
            "Hosts of headless Services that this cluster calls there.", service, {"ready": ready}, left
        ),
        "offeredHeadless": _hosts("Hosts of headless Services of this cluster that it may call.", service, {}, None),
    }


def _hosts(what: str, service: Schema, more: dict[str, Schema], left: Schema | None) -> Schema:
    host = fields("Pods with one host name.", {"name": _HOST, **more}, required=["name"])
    entry = {
        "name": service,
        "ports": _PORTS,
        "hosts": items("Hosts that have these ports.", host, minItems=1, maxItems=100, **_ATOMIC),
        **({"leftOut": left} if left is not None else {}),
    }
    one = fields(
        "Hosts of a Service that have the same ports.",
        entry,
        required=["name", "ports", "hosts"],
    )
    return items(what, one, maxItems=PEER_SERVICES_LIMIT, **_ATOMIC)


FIELDS_OF_STATUS: dict[str, Schema] = {
    "headless": items(
        "What stands for hosts of headless Services.",
        fields(
            "A host.",
            {
                "name": text("Name of the headless Service."),
                "host": text("Name of the host; empty: all pods that have none."),
                "ports": items(
                    "Its ports.",
                    fields(
                        "A port.",
                        {
                            "port": _PORT,
                            "locals": items("Ports of the own gateways that stand for it.", whole("A port.")),
                        },
                        required=["port"],
                    ),
                ),
            },
            required=["name", "host"],
        ),
        **_ATOMIC,
    ),
}
