"""Parts of the custom resources' schemas."""

import copy
from typing import Any

Schema = dict[str, Any]


def fields(description: str, properties: dict[str, Schema], **rest: Any) -> Schema:
    """Return the schema of an object with these fields."""
    return {"type": "object", "description": description, "properties": properties, **rest}


def resource(description: str, properties: dict[str, Schema], **rest: Any) -> Schema:
    """Return the schema of a custom resource with these fields in addition to its metadata."""
    head: dict[str, Schema] = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    }
    return fields(description, {**head, **properties}, **rest)


def text(description: str, **rest: Any) -> Schema:
    """Return the schema of a string field."""
    return {"type": "string", "description": description, **rest}


def items(description: str, schema: Schema, **rest: Any) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "description": description, "items": schema, **rest}


def keyed(*keys: str) -> Schema:
    """Return the part of a list's schema by which the API server merges and compares its items by these fields."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


def whole(description: str, format: str = "int32", **rest: Any) -> Schema:
    """Return the schema of a field with a whole number."""
    return {"type": "integer", "format": format, "description": description, **rest}


QUANTITY: Schema = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    # As in controller-gen's schema of `resource.Quantity`.
    "pattern": (
        r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
        r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
    ),
    "maxLength": 64,
}


def amounts(description: str, *, most: int | None = QUANTITY["maxLength"]) -> Schema:
    """Return the schema of quantities by the name of a resource.

    :param most: maximum number of characters of a quantity, None without a maximum
    """
    one = {**copy.deepcopy(QUANTITY), "maxLength": most}
    if most is None:
        del one["maxLength"]
    return {"type": "object", "description": description, "additionalProperties": one}


CONDITION: Schema = fields(
    "One aspect of the state of the object.",
    {
        "type": text("Which aspect.", maxLength=316),
        "status": text("Whether it holds.", enum=["True", "False", "Unknown"]),
        "reason": text("Why, as one word for programs.", maxLength=1024),
        "message": text("Why, and what to do about it.", maxLength=32768),
        "observedGeneration": {
            "type": "integer",
            "format": "int64",
            "minimum": 0,
            "description": "Generation of the object that this was said about.",
        },
        "lastTransitionTime": text("When the status last changed.", format="date-time"),
    },
    required=["type", "status", "reason", "message", "lastTransitionTime"],
)

STATUS: Schema = fields(
    "What the controllers see.",
    {
        "conditions": {
            "type": "array",
            "description": "State of the object, one aspect each.",
            "items": CONDITION,
            **keyed("type"),
        }
    },
)
