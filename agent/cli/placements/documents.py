"""A Placement in a file: parsed strictly, with every error at its field."""

import difflib
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from agent.api.crds.placement import placement as schema
from agent.api.kinds import PLACEMENTS
from agent.cli.options import Failed

Raw = dict[str, Any]
Schema = Mapping[str, Any]

_TYPES: Mapping[str, tuple[type, str]] = {
    "object": (dict, "an object"),
    "array": (list, "a list"),
    "string": (str, "a string"),
    "integer": (int, "a whole number"),
    "boolean": (bool, "true or false"),
}


def text_of(file: str) -> str:
    """Return the text of a file, or of standard input for `-`. Raises Failed."""
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"{file} cannot be read: {error}") from None


def placement_in(text: str, file: str, name: str, namespace: str, default: str) -> Raw:
    """Return the Placement in a file, in its namespace: the only one, or the one with this name.

    :param namespace: namespace that the user has named, empty without one
    :param default: namespace for a Placement without one
    :raises Failed: if there is none, or an API server would refuse it; lists all errors
    """
    found = _chosen([each for each in _documents(text, file) if _is_placement(each)], file, name)
    errors = list(_metadata_errors(found, namespace))
    errors += wrong(found, schema(), "")
    if errors:
        raise Failed(f"{file}: " + "\n".join(errors))
    metadata = found["metadata"]
    return found | {"metadata": metadata | {"namespace": metadata.get("namespace") or namespace or default}}


def _documents(text: str, file: str) -> list[Any]:
    try:
        found = list(yaml.safe_load_all(text))
    except yaml.YAMLError as error:
        raise Failed(f"{file} is no YAML: {' '.join(str(error).split())}") from None
    lists = [each.get("items") for each in found if isinstance(each, dict) and each.get("kind") == "List"]
    return [*found, *(item for items in lists if isinstance(items, list) for item in items)]


def _is_placement(document: Any) -> bool:
    if not isinstance(document, dict) or document.get("kind") != PLACEMENTS.name:
        return False
    return str(document.get("apiVersion", "")).partition("/")[0] == PLACEMENTS.group


def _chosen(found: list[Raw], file: str, name: str) -> Raw:
    names = [str(_metadata(each).get("name") or "") for each in found]
    if not found:
        raise Failed(f"{file} has no Placement of apiVersion {PLACEMENTS.api_version}")
    if not name and len(found) > 1:
        raise Failed(f"{file} has several Placements: name one of them ({', '.join(names)})")
    if name and name not in names:
        raise Failed(f"{file} has no Placement {name} (it has: {', '.join(names)})")
    return found[names.index(name) if name else 0]


def _metadata(document: Raw) -> Raw:
    metadata = document.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _metadata_errors(found: Raw, namespace: str) -> Iterator[str]:
    if found["apiVersion"] != PLACEMENTS.api_version:
        yield f"apiVersion: {found['apiVersion']} is not known here, write {PLACEMENTS.api_version}"
    metadata = _metadata(found)
    texts = {field: metadata.get(field) for field in ("name", "namespace")}
    if not texts["name"]:
        yield "metadata.name: is required"
    elif odd := [field for field, value in texts.items() if value is not None and not isinstance(value, str)]:
        yield f"metadata.{odd[0]}: {texts[odd[0]]!r} is no text: put it in quotes"
    elif namespace and metadata.get("namespace") not in (None, "", namespace):
        yield f"metadata.namespace: is {metadata['namespace']}, and -n says {namespace}: leave one of them out"


def wrong(value: Any, schema: Schema, where: str) -> Iterator[str]:
    """Yield a line for each field that an API server with strict validation would refuse."""
    if schema.get("x-kubernetes-int-or-string"):
        yield from _number_or_text(value, schema, where)
        return
    kind, called = _TYPES[schema["type"]]
    if value is None:
        # API servers treat a field that is null as absent.
        return
    if not _is(value, kind):
        yield f"{where}: must be {called}, not {_shown(value)}"
    elif kind is dict:
        yield from _of_fields(value, schema, where)
    elif kind is list:
        if len(value) > schema.get("maxItems", len(value)):
            yield f"{where}: has {len(value)} items, {schema['maxItems']} are allowed"
        for number, item in enumerate(value):
            yield from wrong(item, schema["items"], f"{where}[{number}]")
    elif kind is str:
        yield from _of_text(value, schema, where)
    elif kind is int:
        yield from _of_number(value, schema, where)


def _is(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and (kind is not int or not isinstance(value, bool))


def _of_fields(value: Raw, schema: Schema, where: str) -> Iterator[str]:
    prefix = f"{where}." if where else ""
    known = schema.get("properties")
    if known is None:
        for key, item in value.items() if schema.get("additionalProperties") else ():
            yield from wrong(item, schema["additionalProperties"], f"{prefix}{key}")
        return
    for key, item in value.items():
        if key in known:
            yield from wrong(item, known[key], f"{prefix}{key}")
        else:
            close = difflib.get_close_matches(str(key), known, 1)
            meant = f"did you mean {close[0]}?" if close else f"there is: {', '.join(known)}"
            yield f"{prefix}{key}: unknown field; {meant}"
    for key in schema.get("required") or ():
        if value.get(key) is None and "default" not in known[key]:
            yield f"{prefix}{key}: is required"


def _of_text(value: str, schema: Schema, where: str) -> Iterator[str]:
    if value not in schema.get("enum", (value,)):
        yield f"{where}: {_shown(value)} is none of {', '.join(schema['enum'])}"
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        yield f"{where}: {len(value)} characters, {schema.get('minLength', 0)} to {schema['maxLength']} are allowed"
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{where}: {_shown(value)} does not look as it has to ({schema['pattern']})"


def _of_number(value: int, schema: Schema, where: str) -> Iterator[str]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if (least is not None and value < least) or (most is not None and value > most):
        yield f"{where}: must be {f'from {least} to {most}' if most is not None else f'{least} or more'}, not {value}"


def _number_or_text(value: Any, schema: Schema, where: str) -> Iterator[str]:
    if isinstance(value, str):
        yield from _of_text(value, schema, where)
    elif value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        yield f"{where}: must be a whole number or a string, not {_shown(value)}"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "a list"
    return "an object" if isinstance(value, dict) else repr(value)
