"""Group addon.open-cluster-management.io: kinds that agents of members watch. A hub without addons has none of them.

Both versions store every field, so that objects need no conversion: addon managers of Open Cluster Management
validate their own fields.
"""

from typing import Any

from agent.api.crds.definition import column, crd, ours
from agent.api.crds.placement import conditions, status_of
from agent.api.crds.schema import Schema, fields, items, resource, text
from agent.api.kinds import CLUSTER_MANAGEMENT_ADDONS, MANAGED_CLUSTER_ADDONS

_ANY = {"x-kubernetes-preserve-unknown-fields": True}


def hub_crds() -> list[dict[str, Any]]:
    """Return the CRDs of addons, which agents of Open Cluster Management expect of a hub."""
    columns = [column(each, status_of(each), f"Condition {each}.") for each in ("Available", "Degraded", "Progressing")]
    named = [column("Display Name", ".spec.addOnMeta.displayName", "Its name for people.")]
    found = [
        crd(CLUSTER_MANAGEMENT_ADDONS, ("cma", "cmas"), _addon(), named),
        crd(MANAGED_CLUSTER_ADDONS, ("mca", "mcas"), _addon_of_a_cluster(), columns),
    ]
    for each in found:
        (version,) = each["spec"]["versions"]
        each["spec"]["versions"] = [{**version, "name": "v1alpha1", "storage": False}, version]
    return ours(found)


def _addon() -> Schema:
    spec, status = fields("What the addon is.", {}, **_ANY), fields("What is known of it.", {}, **_ANY)
    return resource("An addon that clusters may have.", {"spec": spec, "status": status})


def _addon_of_a_cluster() -> Schema:
    mode = text("How Available is found: by a lease in the cluster, or by the addon.", enum=["Lease", "Customized"])
    registration = fields("One certificate that its agent asks for.", {"signerName": text("Its signer.")}, **_ANY)
    status = fields(
        "What is known of it.",
        {
            **conditions("addon", mergeable=True),
            "healthCheck": fields("How its health is found.", {"mode": {**mode, "default": "Lease"}}, **_ANY),
            "namespace": text("Namespace of its agent in the cluster."),
            "registrations": items("Certificates that its agent asks for.", registration),
        },
        **_ANY,
    )
    spec = fields("What is wanted of it.", {}, **_ANY)
    return resource("An addon of the cluster that its namespace is named like.", {"spec": spec, "status": status})
