"""Downward API of delegates: containers get the values of the proxy pod.

Environment variables get the proxy's value written out. For an annotation that the delegate also has, the target's
kubelet resolves the reference. Files of downwardAPI volumes refer to the delegate's copy of the value: its exact label,
or an annotation or label about its parent. Files with all labels or all annotations list those of the proxy pod,
without ours. Their text is an annotation of the delegate, so that the kubelet updates the file when it changes.
"""

import re
from collections.abc import Mapping
from typing import Any

from agent.api import names
from agent.api.names import delegates
from agent.model import annotations as sizes
from agent.model.errors import InvalidPod
from agent.model.relabel import exact_key

LIMIT = 1 << 20
"""Maximum bytes of all values that are written out for one pod.

Many short references can copy the same long value. The API server accepts at most 1.5 MiB for a whole object.
"""

_SHOWN = 100
"""Maximum characters of a name in messages, since names of variables may have any length."""

_KEYED = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
_PLAIN = {"metadata.name": "name", "metadata.namespace": "namespace", "metadata.uid": "uid"}
_PARENT = {
    "metadata.name": f"metadata.annotations['{names.ANNOTATION_PARENT_NAME}']",
    "metadata.uid": f"metadata.labels['{names.LABEL_PARENT_UID}']",
}

_WHOLE = {
    "metadata.labels": delegates.ANNOTATION_LABELS_FILE,
    "metadata.annotations": delegates.ANNOTATION_ANNOTATIONS_FILE,
}
"""Annotations with the text of files that list all labels or annotations."""
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r"}
_ESCAPES |= {"\t": "\\t", "\v": "\\v"}


class Environment:
    """Environment variables of one pod's delegate. LIMIT applies to all its containers together."""

    def __init__(self, proxy: Mapping[str, Any], travelling: Mapping[str, str]) -> None:
        """:param travelling: annotations that the delegate shares with the proxy pod"""
        self._metadata: Mapping[str, Any] = proxy["metadata"]
        self._travelling = travelling
        self._left = LIMIT

    def resolve(self, container: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return a container's variables with references to the pod's metadata replaced by the proxy's values.

        :raises InvalidPod: if the values are longer than LIMIT, together with those of the containers before
        """
        return [self._variable(item, container) for item in container["env"]]

    def _variable(self, item: dict[str, Any], container: Mapping[str, Any]) -> dict[str, Any]:
        path = ((item.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath")
        value = self._value(path) if path else None
        if path is None or value is None:
            return item
        # The kubelet expands $(NAME) in literal values, and reads $$ as one $.
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


class Files:
    """Files of one pod's downwardAPI volumes.

    `labels`: labels of the proxy pod that the delegate gets. `annotations`: annotations that the delegate needs for the
    files.
    """

    def __init__(self, labels: Mapping[str, str], annotations: Mapping[str, str]) -> None:
        """:param annotations: annotations of the proxy pod that the delegate gets"""
        self.labels = labels
        self._left = sizes.LIMIT - sizes.RESERVED - sizes.size(annotations)
        self._texts = dict(zip(_WHOLE, (labels, annotations), strict=True))
        self.annotations: dict[str, str] = {}

    def redirect(self, volume: dict[str, Any]) -> dict[str, Any]:
        """Return a volume with its references changed to labels and annotations of the delegate."""
        if volume.get("downwardAPI"):
            return {**volume, "downwardAPI": self._items(volume["downwardAPI"])}
        sources = (volume.get("projected") or {}).get("sources")
        if sources and any(source.get("downwardAPI") for source in sources):
            redirected = [
                {**source, "downwardAPI": self._items(source["downwardAPI"])} if source.get("downwardAPI") else source
                for source in sources
            ]
            return {**volume, "projected": {**volume["projected"], "sources": redirected}}
        return volume

    def _items(self, source: dict[str, Any]) -> dict[str, Any]:
        if not source.get("items"):
            return source
        return {**source, "items": [self._file(item) for item in source["items"]]}

    def _file(self, item: dict[str, Any]) -> dict[str, Any]:
        reference = item.get("fieldRef") or {}
        path = reference.get("fieldPath", "")
        keyed = _KEYED.fullmatch(path)
        if keyed and keyed[1] == "labels":
            new = f"metadata.labels['{self._label(keyed[2])}']"
        elif path in _PARENT:
            new = _PARENT[path]
        elif path in _WHOLE and self._writes(path):
            new = f"metadata.annotations['{_WHOLE[path]}']"
        else:
            return item
        return {**item, "fieldRef": {**reference, "fieldPath": new}}

    def _label(self, key: str) -> str:
        """Return the delegate's key of a label: its exact key, or the same key for a label of the node."""
        return key if key in names.LABELS_OF_NODE - self.labels.keys() else exact_key(key)

    def _writes(self, path: str) -> bool:
        """Add the annotation with a file's text. Return False if it does not fit, so that the reference is kept."""
        key = _WHOLE[path]
        if key not in self.annotations:
            text = listing(self._texts[path])
            self._left -= len(key) + len(text.encode())
            if self._left < 0:
                return False
            self.annotations[key] = text
        return True


def listing(pairs: Mapping[str, str]) -> str:
    """Return labels or annotations in the kubelet's format of a downwardAPI file, without ours."""
    return "\n".join(f"{key}={_quoted(value)}" for key, value in sorted(pairs.items()) if not names.is_ours(key))


def changed_files(
    delegate: Mapping[str, str], labels: Mapping[str, str], annotations: Mapping[str, str]
) -> dict[str, str]:
    """Return changed texts of files by annotation; {} if they do not fit.

    :param delegate: annotations of the chaperon, which show whether the pod has such files
    :param labels: labels of the proxy pod that the delegate gets
    :param annotations: annotations of the proxy pod that the delegate gets
    """
    found = {
        key: listing(pairs)
        for key, pairs in zip(_WHOLE.values(), (labels, annotations), strict=True)
        if key in delegate
    }
    room = sizes.LIMIT - sizes.RESERVED - sizes.size({**delegate, **found})
    return {key: text for key, text in found.items() if delegate[key] != text} if room >= 0 else {}


def _is_of_node(field: str, key: str, metadata: Mapping[str, Any]) -> bool:
    """Return True for a label that the API server adds to the delegate when it is bound to a node."""
    return field == "labels" and key in names.LABELS_OF_NODE and key not in (metadata.get("labels") or {})


def _quoted(text: str) -> str:
    """Return a string as Go's `%q` writes it."""
    return '"' + "".join(each if each.isprintable() and each not in '"\\' else _escaped(each) for each in text) + '"'


def _escaped(char: str) -> str:
    code = ord(char)
    if char in _ESCAPES:
        return _ESCAPES[char]
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
