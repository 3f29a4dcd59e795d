"""What schemas of the custom resources are built from."""

import copy
from typing import Any

Schema = dict[str, Any]


def fields(description: str, properties: dict[str, Schema], **rest: Any) -> Schema:
    """An object with these fields."""
    return {"type": "object", "description": description, "properties": properties, **rest}


def resource(description: str, properties: dict[str, Schema], **rest: Any) -> Schema:
    """A custom resource with these fields beside its metadata."""
    head: dict[str, Schema] = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    }
    return fields(description, {**head, **properties}, **rest)


def text(description: str, **rest: Any) -> Schema:
    """Schema of a string field."""
    return {"type": "string", "description": description, **rest}


def items(description: str, schema: Schema, **rest: Any) -> Schema:
    """A list of such fields."""
    return {"type": "array", "description": description, "items": schema, **rest}


def whole(description: str, format: str = "int32", **rest: Any) -> Schema:
    """Schema of a field with a whole number."""
    return {"type": "integer", "format": format, "description": description, **rest}


QUANTITY: Schema = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    # As controller-gen writes it for `resource.Quantity`.
    "pattern": (
        r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
        r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
    ),
    "maxLength": 64,
}


def amounts(description: str, *, most: int | None = QUANTITY["maxLength"]) -> Schema:
    """Quantities by the name of a resource, of at most so many characters."""
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
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        }
    },
)
