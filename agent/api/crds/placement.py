"""Schema of Open Cluster Management's Placements, and parts that its other kinds share."""

from typing import Any

from agent.api.crds.definition import column
from agent.api.crds.schema import CONDITION, Schema, fields, items, keyed, resource, text, whole

_DOMAIN = r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
KEY: dict[str, Any] = {"maxLength": 316, "pattern": rf"^{_DOMAIN}(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"}
"""Validation of keys of taints and labels."""
EFFECTS = ("NoSelect", "PreferNoSelect", "NoSelectIfNew")
"""Effects of taints."""

_CONDITION: Schema = {
    **CONDITION,
    "properties": {
        **CONDITION["properties"],
        "reason": text(
            "Why, as one word for programs.",
            minLength=1,
            maxLength=1024,
            pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        ),
        "type": text("Which aspect.", **KEY),
    },
}


def conditions(of: str, *, mergeable: bool = False) -> dict[str, Schema]:
    """Return a field with conditions, validated as in Open Cluster Management."""
    listed = keyed("type") if mergeable else {}
    return {"conditions": items(f"State of the {of}, one aspect each.", _CONDITION, **listed)}


def status_of(condition: str) -> str:
    """Return the JSON path of the status of a condition."""
    return f'.status.conditions[?(@.type=="{condition}")].status'


def texts(description: str, **rest: Any) -> Schema:
    """Return the schema of a list of strings."""
    return items(description, {"type": "string"}, **rest)


def _expressions(of: str, **rest: Any) -> Schema:
    one = fields(
        "One requirement.",
        {
            "key": text(f"Key of the {of}."),
            "operator": text("In, NotIn, Exists or DoesNotExist."),
            "values": texts("Values, for In and NotIn.", **{"x-kubernetes-list-type": "atomic"}),
        },
        required=["key", "operator"],
    )
    return items("Requirements, all of which hold.", one, **rest)


def label_selector() -> Schema:
    """Return the schema of a label selector."""
    return fields(
        "Labels that a cluster has.",
        {
            "matchExpressions": _expressions("label", **{"x-kubernetes-list-type": "atomic"}),
            "matchLabels": {
                "type": "object",
                "description": "Keys with the values that they have.",
                "additionalProperties": {"type": "string"},
            },
        },
        **{"x-kubernetes-map-type": "atomic"},
    )


def _selectors() -> dict[str, Schema]:
    return {
        "labelSelector": label_selector(),
        "claimSelector": fields("Claims that a cluster has.", {"matchExpressions": _expressions("claim")}),
    }


def _predicates() -> Schema:
    cel = fields(
        "What CEL says of the cluster.",
        {"celExpressions": texts("Expressions over `managedCluster`, all of which are true.")},
    )
    selector = fields("Selectors, all of which match.", {**_selectors(), "celSelector": cel})
    one = fields("One predicate.", {"requiredClusterSelector": selector})
    return items("Which clusters come into question: those that one of them matches; all if there is none.", one)


def _prioritizers() -> Schema:
    add_on = fields(
        "A score of an AddOnPlacementScore.",
        {"resourceName": text("Name of the object."), "scoreName": text("Name of the score in it.")},
        required=["resourceName", "scoreName"],
    )
    coordinate = fields(
        "Which score.",
        {
            "type": text("BuiltIn or AddOn.", default="BuiltIn", enum=["BuiltIn", "AddOn"]),
            "builtIn": text("Balance, Steady, ResourceAllocatableCPU, ResourceAllocatableMemory or Spread."),
            "addOn": add_on,
        },
        required=["type"],
    )
    weight = whole(
        "How much it counts; 0 leaves it out, a negative one prefers low scores.", default=1, minimum=-10, maximum=10
    )
    one = fields("One score and its weight.", {"scoreCoordinate": coordinate, "weight": weight})
    one["required"] = ["scoreCoordinate"]
    return fields(
        "Which clusters come first.",
        {
            "mode": text(
                "Additive: Balance and Steady count 1 unless they are listed. Exact: what is listed counts alone.",
                default="Additive",
            ),
            "configurations": items("Scores and their weights.", one),
        },
    )


def _spread() -> Schema:
    one = fields(
        "One rule, the earlier of two counts more.",
        {
            "topologyKey": text("Label or claim whose values the decisions are spread over.", **KEY),
            "topologyKeyType": text("Label or Claim.", enum=["Label", "Claim"]),
            "maxSkew": whole("How many more there may be of one value than of another.", default=1, minimum=1),
            "whenUnsatisfiable": text(
                "DoNotSchedule: rather fewer decisions. ScheduleAnyway: rather a greater skew.",
                default="ScheduleAnyway",
                enum=["DoNotSchedule", "ScheduleAnyway"],
            ),
        },
        required=["topologyKey", "topologyKeyType"],
    )
    return fields("How decisions are spread.", {"spreadConstraints": items("Rules.", one, maxItems=8)})


def _tolerations() -> Schema:
    one = fields(
        "One toleration.",
        {
            "key": text("Key of the taint; empty with Exists: of all.", **KEY),
            "operator": text("Equal or Exists.", default="Equal"),
            "value": text("Value of the taint, for Equal.", maxLength=1024),
            "effect": text("Effect of the taint; empty: every one.", enum=list(EFFECTS)),
            "tolerationSeconds": whole("For how long, counted from the taint's timeAdded; not set: for ever.", "int64"),
        },
    )
    return items("Taints that keep nothing away.", one)


def _groups() -> Schema:
    one = fields(
        "One group.",
        {
            "groupName": text(
                "Name of the group, a label of its decisions.",
                pattern=r"^[a-zA-Z0-9][-A-Za-z0-9_.]{0,61}[a-zA-Z0-9]$",
            ),
            "groupClusterSelector": fields("Which clusters are in it.", _selectors()),
        },
        required=["groupClusterSelector", "groupName"],
    )
    size: Schema = {
        "x-kubernetes-int-or-string": True,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "description": "How many clusters a group has at most: a number, or a part of all such as 20%.",
        "pattern": r"^((100|[1-9][0-9]{0,1})%|[1-9][0-9]*)$",
        "default": "100%",
    }
    strategy = fields(
        "How clusters are put into groups.",
        {
            "decisionGroups": items("Groups by name, the first that matches counts.", one),
            "clustersPerDecisionGroup": size,
        },
    )
    return fields("Groups of decisions, for those who proceed one after the other.", {"groupStrategy": strategy})


def _status() -> Schema:
    group = fields(
        "One group.",
        {
            "decisionGroupIndex": whole("Its place among all, from 0."),
            "decisionGroupName": text("Its name; empty for those that nobody named."),
            "decisions": texts("Names of its PlacementDecisions."),
            "clusterCount": whole("How many clusters are in it.", default=0),
        },
    )
    return fields(
        "What has been decided.",
        {
            "numberOfSelectedClusters": whole("How many clusters are decided."),
            "decisionGroups": items("Groups of decisions.", group),
            **conditions("Placement", mergeable=True),
            "lastScoreUpdateTime": text("When scores in decisions were last written.", format="date-time"),
        },
    )


def placement() -> Schema:
    """Return the schema of Placements."""
    spec = fields(
        "Which clusters, and how many.",
        {
            "clusterSets": texts("Names of sets that are bound to the namespace; all of these if it is empty."),
            "numberOfClusters": whole("How many clusters; all that come into question if it is not set."),
            "predicates": _predicates(),
            "prioritizerPolicy": _prioritizers(),
            "spreadPolicy": _spread(),
            "tolerations": _tolerations(),
            "decisionStrategy": _groups(),
            "sortBy": text(
                "Order of the decisions: ClusterName, or Score, the highest first.",
                default="ClusterName",
                enum=["ClusterName", "Score"],
            ),
            "scoreRateLimit": text(
                "How often decisions are written of which nothing but scores changes, at most.",
                default="1m",
                pattern="^[0-9]+[hms]$",
            ),
        },
    )
    return resource(
        "Which of the clusters that are bound to its namespace something is meant for.",
        {"spec": spec, "status": _status()},
        required=["spec"],
    )


PLACEMENT_COLUMNS = [
    column("Succeeded", status_of("PlacementSatisfied"), "Whether there are as many clusters as wanted."),
    column("Reason", '.status.conditions[?(@.type=="PlacementSatisfied")].reason', "Why or why not."),
    column("SelectedClusters", ".status.numberOfSelectedClusters", "How many clusters are decided.", type="integer"),
]
