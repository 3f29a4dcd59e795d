"""Downward API of delegates: what a container asks about its pod is answered about the proxy pod.

Environment variables get the proxy's value written out, except for an annotation that the delegate has, too: there the
target's kubelet resolves the reference. Files of downwardAPI volumes are pointed at where the delegate carries the same
value: its rewritten label, or an annotation or label about its parent.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from agent.api import names
from agent.model.errors import InvalidPod

LIMIT = 1 << 20
"""Bytes of all values together that are written out for one pod.

A short reference can name a long value, and becomes a copy of it. API servers take 1.5 MiB for a whole object."""

_SHOWN = 100
"""Characters of names in messages; names of variables have no limit."""

_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
_PLAIN = {"metadata.name": "name", "metadata.namespace": "namespace", "metadata.uid": "uid"}
_PARENT = {
    "metadata.name": f"metadata.annotations['{names.ANNOTATION_PARENT_NAME}']",
    "metadata.uid": f"metadata.labels['{names.LABEL_PARENT_UID}']",
}


class Environment:
    """Environment variables of one pod's delegate. The limit is for all its containers together."""

    def __init__(self, proxy: Mapping[str, Any], travelling: Mapping[str, str]) -> None:
        """:param travelling: annotations that the delegate has, with the proxy's values"""
        self._metadata: Mapping[str, Any] = proxy["metadata"]
        self._travelling = travelling
        self._left = LIMIT

    def resolve(self, container: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Variables of a container, in which references to the pod's metadata are replaced by the proxy's values.

        :raises InvalidPod: if the values are longer than LIMIT, together with those of the containers before
        """
        return [self._variable(item, container) for item in container["env"]]

    def _variable(self, item: dict[str, Any], container: Mapping[str, Any]) -> dict[str, Any]:
        path = ((item.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath")
        value = self._value(path) if path else None
        if path is None or value is None:
            return item
        # The kubelet expands $(NAME) in values that are written out, and reads $$ as one $.
        self._left -= len(value) + value.count("$") if value.isascii() else len(value.encode()) + value.count("$")
        if self._left < 0:
            raise InvalidPod(
                f"spec.containers[{container['name']}].env[{item['name'][:_SHOWN]}]",
                f"the values of all variables that name a field of the pod take more than {LIMIT} bytes, of which this"
                f" one, {path[:_SHOWN]}, has {len(value)} characters: let fewer variables name it, or read it from a"
                " file of a downwardAPI volume",
            )
        rest = {key: field for key, field in item.items() if key != "valueFrom"}
        return {**rest, "value": value.replace("$", "$$")}

    def _value(self, path: str) -> str | None:
        """Return the proxy's value of a field, or None if the target's kubelet resolves the reference."""
        keyed = _KEYED.fullmatch(path)
        if not keyed:
            return str(self._metadata.get(_PLAIN[path], "")) if path in _PLAIN else None
        field, key = keyed[1], keyed[2]
        if _is_of_node(field, key, self._metadata) or (field == "annotations" and key in self._travelling):
            return None
        return str((self._metadata.get(field) or {}).get(key, ""))


def redirect_volume(volume: dict[str, Any], label_key: Callable[[str], str]) -> dict[str, Any]:
    """A volume whose downward API files name what the delegate has instead; `label_key` rewrites a label's key."""
    if volume.get("downwardAPI"):
        return {**volume, "downwardAPI": _files(volume["downwardAPI"], label_key)}
    sources = (volume.get("projected") or {}).get("sources")
    if sources and any(source.get("downwardAPI") for source in sources):
        redirected = [
            {**source, "downwardAPI": _files(source["downwardAPI"], label_key)} if source.get("downwardAPI") else source
            for source in sources
        ]
        return {**volume, "projected": {**volume["projected"], "sources": redirected}}
    return volume


def _is_of_node(field: str, key: str, metadata: Mapping[str, Any]) -> bool:
    """Whether it is a label that the delegate gets from its node, when it is bound."""
    return field == "labels" and key in names.LABELS_OF_NODE and key not in (metadata.get("labels") or {})


def _files(source: dict[str, Any], label_key: Callable[[str], str]) -> dict[str, Any]:
    if not source.get("items"):
        return source
    return {**source, "items": [_file(item, label_key) for item in source["items"]]}


def _file(item: dict[str, Any], label_key: Callable[[str], str]) -> dict[str, Any]:
    reference = item.get("fieldRef") or {}
    path = reference.get("fieldPath", "")
    keyed = _KEYED.fullmatch(path)
    if keyed and keyed[1] == "labels":
        new = f"metadata.labels['{label_key(keyed[2])}']"
    elif path in _PARENT:
        new = _PARENT[path]
    else:
        return item
    return {**item, "fieldRef": {**reference, "fieldPath": new}}
