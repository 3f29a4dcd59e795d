"""kubeconfigs as documents: found where kubectl finds them, merged as kubectl merges them, read, written."""

import base64
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from agent.kube.errors import InvalidConfig

Entry = dict[str, Any]

_SECTIONS = (("clusters", "cluster"), ("contexts", "context"), ("users", "user"))
_FILES = {"cluster": ("certificate-authority",), "user": ("client-certificate", "client-key", "tokenFile")}
"""Fields that name files, relative to the kubeconfig's own directory."""


def files(kubeconfig: str = "") -> list[Path]:
    """The given file, else those of $KUBECONFIG, else ~/.kube/config. Raises InvalidConfig when there is none."""
    named = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    parts = [kubeconfig] if kubeconfig else [part for part in named.split(os.pathsep) if part]
    # Path.expanduser fails where nobody has a home, as in containers.
    paths = [path for path in (Path(os.path.expanduser(part)) for part in parts) if path.is_file()]
    if not paths:
        raise InvalidConfig(f"no kubeconfig at {named}: give one with --kubeconfig or $KUBECONFIG, or run in a cluster")
    return paths


def merged(paths: Sequence[Path]) -> Entry:
    """One document of several files: what comes first wins. Names of files in it are absolute."""
    found: Entry = {section: [] for section, _ in _SECTIONS}
    for path in paths:
        data = read(path)
        try:
            document = _absolute(document_of(data), path.absolute().parent)
        except InvalidConfig as error:
            raise InvalidConfig(f"{path}: {error}") from error
        if not found.get("current-context") and document.get("current-context"):
            found["current-context"] = document["current-context"]
        for section, _ in _SECTIONS:
            known = {item.get("name") for item in found[section]}
            found[section] += [item for item in _items(document, section) if item.get("name") not in known]
    return found


def document_of(data: bytes | str) -> Entry:
    """A kubeconfig's bytes (YAML or JSON) as a document. Raises InvalidConfig."""
    try:
        document = _json(data) or yaml.safe_load(data)
    except yaml.YAMLError as error:
        raise InvalidConfig("kubeconfig is neither YAML nor JSON") from error
    if not isinstance(document, dict):
        raise InvalidConfig("kubeconfig is not an object with clusters, contexts and users")
    return document


def named(document: Entry, section: str, field_name: str, name: str) -> Entry:
    """The cluster, context or user of a name. Raises InvalidConfig, which says what there is."""
    items = _items(document, section)
    for item in items:
        if item.get("name") == name and isinstance(item.get(field_name), dict):
            found: Entry = item[field_name]
            return found
    known = ", ".join(str(item.get("name")) for item in items)
    raise InvalidConfig(f"kubeconfig has no {field_name} named {name!r} (it has: {known or 'none'})")


def context_of(document: Entry, context: str = "") -> tuple[str, Entry]:
    """Name and entry of a context, by default of the current one. Raises InvalidConfig."""
    name = context or str(document.get("current-context") or "")
    if not name:
        raise InvalidConfig("kubeconfig has no current-context: set it, or name a context")
    return name, named(document, "contexts", "context", name)


def cluster_of(document: Entry, context: str = "") -> Entry:
    """The cluster of a context. Raises InvalidConfig."""
    return named(document, "clusters", "cluster", str(context_of(document, context)[1].get("cluster", "")))


def token_of(document: Entry, context: str = "") -> str:
    """The token of a context's user, empty when it has none. Raises InvalidConfig."""
    user = context_of(document, context)[1].get("user")
    return str(named(document, "users", "user", str(user)).get("token") or "").strip() if user else ""


def set_token(document: Entry, token: str, context: str = "") -> None:
    """Give the user of a context another token. Raises InvalidConfig."""
    named(document, "users", "user", str(context_of(document, context)[1].get("user")))["token"] = token


def with_token(name: str, cluster: Entry, namespace: str, token: str) -> Entry:
    """A kubeconfig with one context, all of whose parts have the same name."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
        "current-context": name,
    }


def embedded(pem: bytes) -> str:
    """As the `-data` fields hold it."""
    return base64.b64encode(pem).decode()


def read(path: Path) -> bytes:
    """A file's bytes. Raises InvalidConfig."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidConfig(f"cannot read {path}: {error.strerror}") from error


def _json(data: bytes | str) -> Any:
    """JSON, as our own kubeconfigs are, is read in a hundredth of the time; None for anything else."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError):
        return None


def _items(document: Entry, section: str) -> list[Entry]:
    listed = document.get(section)
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


def _absolute(document: Entry, base: Path) -> Entry:
    for section, field_name in _SECTIONS:
        for item in _items(document, section):
            entry = item.get(field_name)
            if isinstance(entry, dict):
                _resolve(entry, _FILES.get(field_name, ()), base)
    return document


def _resolve(entry: Entry, fields: Iterable[str], base: Path) -> None:
    for field in fields:
        if entry.get(field):
            entry[field] = str(base / Path(str(entry[field])).expanduser())
