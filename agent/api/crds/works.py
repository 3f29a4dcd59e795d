"""Group work.open-cluster-management.io, with the names, defaults and validations of Open Cluster Management."""

from typing import Any

from agent.api.crds.definition import AGE, crd, ours
from agent.api.crds.schema import CONDITION, Schema, fields, items, keyed, resource, text, whole
from agent.api.kinds import APPLIED_MANIFEST_WORKS, MANIFEST_WORKS


def hub_crds() -> list[dict[str, Any]]:
    """Return the CRD of ManifestWorks, which a hub serves."""
    return ours([crd(MANIFEST_WORKS, (), _manifest_work(), [AGE])])


def klusterlet_crds() -> list[dict[str, Any]]:
    """Return the CRD of AppliedManifestWorks, which a member of a hub serves."""
    return ours([crd(APPLIED_MANIFEST_WORKS, (), _applied_manifest_work(), [AGE])])


def _identity() -> dict[str, Schema]:
    return {
        "group": text("API group; empty for the core group."),
        "resource": text("Resource, as deployments."),
        "namespace": text("Namespace; empty for cluster-scoped objects."),
        "name": text("Name."),
    }


def _identifier(what: str) -> Schema:
    return fields(what, _identity(), required=["name", "resource"])


def _manifest_work() -> Schema:
    manifest: Schema = {
        "type": "object",
        "description": "A whole object.",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    account = fields(
        "Service account in the cluster.",
        {
            field: text(f"Its {field}.", minLength=1, maxLength=253, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
            for field in ("namespace", "name")
        },
        required=["name", "namespace"],
    )
    subject = fields(
        "Account that applies the manifests.",
        {"type": text("Type of the account.", enum=["ServiceAccount"]), "serviceAccount": account},
        required=["type"],
    )
    spec = fields(
        "Manifests, and how they are applied.",
        {
            "workload": fields("Objects to apply.", {"manifests": items("All manifests.", manifest)}),
            "deleteOption": _delete_option(),
            "executor": fields("Rights by which manifests are applied.", {"subject": subject}),
            "manifestConfigs": items("Configuration of manifests.", _config()),
        },
    )
    return resource("Manifests for one cluster.", {"spec": spec, "status": _status()}, required=["spec"])


def _delete_option() -> Schema:
    rule = _identifier("An object that stays.")
    return fields(
        "Deletion of the applied objects.",
        {
            "propagationPolicy": text(
                "Foreground: objects are deleted. Orphan: they stay. SelectivelyOrphan: listed ones stay.",
                default="Foreground",
                enum=["Foreground", "Orphan", "SelectivelyOrphan"],
            ),
            "selectivelyOrphans": fields("Objects that stay.", {"orphaningRules": items("Their identities.", rule)}),
            "ttlSecondsAfterFinished": whole("Seconds until a complete ManifestWork is deleted.", "int64"),
        },
    )


def _config() -> Schema:
    path = fields(
        "One value.",
        {
            "name": text("Name of the value."),
            "path": text("JSON path, as .status.phase."),
            "version": text("API version that the path is for; any if not set."),
        },
        required=["name", "path"],
    )
    feedback = fields(
        "Values to report.",
        {
            "type": text("Kind of rule.", enum=["WellKnownStatus", "JSONPaths"]),
            "jsonPaths": items("Values.", path, **keyed("name")),
        },
        required=["type"],
    )
    return fields(
        "Configuration of the manifests that match.",
        {
            "resourceIdentifier": _identifier("Manifests; * in name and namespace matches all."),
            "updateStrategy": _strategy(),
            "feedbackRules": items("Values to report.", feedback),
            "feedbackScrapeType": text("How values are read.", enum=["Poll", "Watch"]),
            "conditionRules": items("Conditions to report.", _condition_rule(), **keyed("condition")),
        },
        required=["resourceIdentifier"],
    )


def _strategy() -> Schema:
    def paths(description: str) -> Schema:
        return items(description, {"type": "string"})

    ignored = fields(
        "Fields that are left to others.",
        {
            "condition": text(
                "When they are ignored.", default="OnSpokePresent", enum=["OnSpokePresent", "OnSpokeChange"]
            ),
            "jsonPaths": paths("JSON paths; the last key is no list."),
            "jsonPointers": paths("JSON pointers."),
            "jqPathExpressions": paths("Expressions of jq."),
        },
        required=["condition"],
    )
    applying = fields(
        "Options of server-side apply.",
        {
            "force": {"type": "boolean", "description": "Whether fields of other managers are taken over."},
            "fieldManager": text("Name of the manager.", default="work-agent", pattern="^work-agent"),
            "ignoreFields": items("Fields that are left to others.", ignored, **keyed("condition")),
        },
    )
    return fields(
        "How objects are changed.",
        {
            "type": text(
                "The strategy.", default="Update", enum=["Update", "CreateOnly", "ServerSideApply", "ReadOnly"]
            ),
            "serverSideApply": applying,
        },
        required=["type"],
    )


def _condition_rule() -> Schema:
    rule = fields(
        "One condition.",
        {
            "condition": text("Type of the condition."),
            "type": text("Kind of rule.", enum=["WellKnownConditions", "CEL"]),
            "celExpressions": items("Expressions in CEL; all have to be true.", {"type": "string"}),
            "message": text("Message of the condition."),
            "messageExpression": text("Expression in CEL for the message."),
        },
        required=["condition", "type"],
    )
    rule["x-kubernetes-validations"] = [
        {
            "rule": "self.type != 'CEL' || self.condition != ''",
            "message": "Condition is required for CEL rules",
        }
    ]
    return rule


def _status() -> Schema:
    meta = {each: text(f"The {each}.") for each in ("group", "version", "kind", "resource", "namespace", "name")}
    value = fields(
        "The value.",
        {
            "type": text("Its type.", enum=["Integer", "String", "Boolean", "JsonRaw"]),
            "integer": whole("A number.", "int64"),
            "string": text("A text."),
            "boolean": {"type": "boolean", "description": "True or false."},
            "jsonRaw": text("JSON.", maxLength=1024),
        },
        required=["type"],
    )
    named = fields("One value.", {"name": text("Its name."), "fieldValue": value}, required=["fieldValue", "name"])
    manifest = fields(
        "State of one manifest.",
        {
            "conditions": items("Aspects of its state.", CONDITION),
            "resourceMeta": fields("Its identity.", {**meta, "ordinal": whole("Its place in the spec.")}),
            "statusFeedback": fields("Reported values.", {"values": items("Values.", named)}),
        },
        required=["resourceMeta"],
    )
    return fields(
        "State, as reported by the cluster's agent.",
        {
            "conditions": items("Aspects of the state.", CONDITION),
            "resourceStatus": fields("State of manifests.", {"manifests": items("Manifests.", manifest)}),
        },
    )


def _applied_manifest_work() -> Schema:
    applied = fields(
        "One object.",
        {
            "version": text("API version without the group."),
            **_identity(),
            "uid": text("UID; empty until the object has been created."),
        },
        required=["name", "resource", "version"],
    )
    spec = fields(
        "Origin of the objects.",
        {
            "hubHash": text("Digest of the address of the hub."),
            "agentID": text("Identity of the agent."),
            "manifestWorkName": text("Name of the ManifestWork."),
        },
        required=["agentID", "hubHash", "manifestWorkName"],
    )
    status = fields(
        "Objects of the ManifestWork.",
        {
            "appliedResources": items("Objects that were created, or will be.", applied),
            "evictionStartTime": text("Time since when the ManifestWork is missing.", format="date-time"),
        },
    )
    return resource("Record and owner of the objects of a ManifestWork.", {"spec": spec, "status": status})
