"""Schema of Sources and ClusterSources: who may run pods here, what they are allowed beside, and their policy."""

from agent.api.policy import POLICY
from agent.api.roles import OPTIONAL_FEATURES
from agent.api.schema import STATUS, Schema, fields, resource, text

_NOT_DEFAULT = {
    "x-kubernetes-validations": [
        {
            "rule": "self != 'default'",
            "message": "every pod that names no account runs as default, and would have the source's rights: name "
            "another account, which is created if it is missing",
        }
    ]
}
SERVICE_ACCOUNT = {
    "serviceAccountName": text(
        "Name of the ServiceAccount, in the namespace of the Source, that the source cluster uses. Created if missing.",
        **_NOT_DEFAULT,
    )
}
CLUSTER_SERVICE_ACCOUNT = {
    "serviceAccount": fields(
        "ServiceAccount that the source cluster uses. Created if missing.",
        {
            "name": text("Name of the ServiceAccount.", **_NOT_DEFAULT),
            "namespace": text("Namespace of the ServiceAccount."),
        },
    )
}


def source(service_account: dict[str, Schema]) -> Schema:
    """Of a Source or ClusterSource, which differ in how they name the service account."""
    spec = fields(
        "Who may run pods here: a user, a ServiceAccount, or both.",
        {
            "userName": text("Name by which this cluster knows the source cluster."),
            **service_account,
            "allow": {
                "type": "array",
                "description": "What it may use beside PodChaperons, ConfigMaps, Secrets, Services and Ingresses: "
                "`services` (their endpoints in other clusters), `volumes` (claims that follow pods), `accounts` "
                "(service accounts that follow pods). All of it if it is not set.",
                "items": {"type": "string", "enum": list(OPTIONAL_FEATURES)},
                "maxItems": len(OPTIONAL_FEATURES),
                "x-kubernetes-list-type": "set",
            },
            "policy": POLICY,
        },
    )
    return resource("A cluster whose pods this one can run.", {"spec": spec, "status": STATUS})
