"""Downward API of delegates: what a container asks about its pod is answered about the proxy pod.

Environment variables get the proxy's value written out. Files of downwardAPI volumes are pointed at where the delegate
carries the same value: its rewritten label, or an annotation or label about its parent.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from agent.api import names

_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
_PLAIN = {"metadata.name": "name", "metadata.namespace": "namespace", "metadata.uid": "uid"}
_PARENT = {
    "metadata.name": f"metadata.annotations['{names.ANNOTATION_PARENT_NAME}']",
    "metadata.uid": f"metadata.labels['{names.LABEL_PARENT_UID}']",
}


def resolve_env(env: list[dict[str, Any]], proxy: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Environment variables in which references to the pod's metadata are replaced by the proxy's values."""
    return [_variable(item, proxy["metadata"]) for item in env]


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


def _variable(item: dict[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    path = ((item.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath")
    if not path:
        return item
    keyed = _KEYED.fullmatch(path)
    if keyed and _is_of_node(keyed[1], keyed[2], metadata):
        return item
    if keyed:
        value = (metadata.get(keyed[1]) or {}).get(keyed[2], "")
    elif path in _PLAIN:
        value = metadata.get(_PLAIN[path], "")
    else:
        return item
    # The kubelet expands $(NAME) in values that are written out, and reads $$ as one $.
    rest = {key: field for key, field in item.items() if key != "valueFrom"}
    return {**rest, "value": value.replace("$", "$$")}


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
