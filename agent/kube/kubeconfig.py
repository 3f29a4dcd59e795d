"""kubeconfigs as documents: found where kubectl finds them, merged as kubectl merges them, read, written."""

import base64
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from agent.kube.errors import InvalidConfig
from agent.model import json_or_yaml as documents

Entry = dict[str, Any]

_SECTIONS = (("clusters", "cluster"), ("contexts", "context"), ("users", "user"))
_TEXTS = {
    "cluster": ("server", "certificate-authority", "certificate-authority-data", "proxy-url", "tls-server-name"),
    "context": ("cluster", "user", "namespace"),
    "user": (
        *("token", "tokenFile", "username", "password"),
        *("client-certificate", "client-certificate-data", "client-key", "client-key-data"),
    ),
}
_FLAGS = {"cluster": ("insecure-skip-tls-verify", "disable-compression")}
_NAMES_TOLD = 10
_SHOWN = 63
_LIMIT = 1024 * 1024
"""Maximum characters of a kubeconfig: a Secret holds no more."""

_FILES = {"cluster": ("certificate-authority",), "user": ("client-certificate", "client-key", "tokenFile")}
"""Fields that name files, relative to the kubeconfig's own directory."""


def files(kubeconfig: str = "") -> list[Path]:
    """Return the given file, else those of $KUBECONFIG, else ~/.kube/config. Raises InvalidConfig when there is
    none.
    """
    named = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    parts = [kubeconfig] if kubeconfig else [part for part in named.split(os.pathsep) if part]
    # Path.expanduser fails for users without a home directory, as in containers.
    paths = [path for path in (Path(os.path.expanduser(part)) for part in parts) if path.is_file()]
    if not paths:
        raise InvalidConfig(f"no kubeconfig at {named}: give one with --kubeconfig or $KUBECONFIG, or run in a cluster")
    return paths


def merged(paths: Sequence[Path]) -> Entry:
    """Merge several files into one document: the first entry wins. File names in it become absolute."""
    found: Entry = {section: [] for section, _ in _SECTIONS}
    for path in paths:
        data = read(path)
        try:
            document = _absolute(_own(data), path.absolute().parent)
        except InvalidConfig as error:
            raise InvalidConfig(f"{path}: {error}") from error
        if not found.get("current-context") and document.get("current-context"):
            found["current-context"] = document["current-context"]
        for section, _ in _SECTIONS:
            known = {item.get("name") for item in found[section]}
            found[section] += [item for item in _items(document, section) if item.get("name") not in known]
    return found


def document_of(data: bytes | str) -> Entry:
    """Parse a kubeconfig's untrusted bytes (YAML or JSON).

    Raises InvalidConfig without any of the content, which is secret.
    """
    try:
        return _checked(documents.read(data if isinstance(data, str) else data.decode("utf-8-sig"), _LIMIT))
    except documents.InvalidDocument as error:
        raise InvalidConfig(f"kubeconfig is neither YAML nor JSON: {error.reason}") from error
    except UnicodeError as error:
        raise InvalidConfig("kubeconfig is neither YAML nor JSON: it is not text in UTF-8") from error


def _own(data: bytes) -> Entry:
    """Parse a file of the user, in any YAML and of any size."""
    try:
        return _checked(_json(data) or yaml.safe_load(data))
    except yaml.YAMLError as error:
        raise InvalidConfig("kubeconfig is neither YAML nor JSON") from error


def _checked(document: Any) -> Entry:
    if not isinstance(document, dict):
        raise InvalidConfig("kubeconfig is not an object with clusters, contexts and users")
    return document


def named(document: Entry, section: str, field_name: str, name: str) -> Entry:
    """Return the cluster, context or user of a name. Raises InvalidConfig with the names that exist."""
    items = _items(document, section)
    for item in items:
        if item.get("name") == name and isinstance(item.get(field_name), dict):
            found: Entry = item[field_name]
            _check_fields(found, field_name, name)
            return found
    known = [each[:_SHOWN] for item in items if isinstance(each := item.get("name"), str)]
    told = ", ".join([*known[:_NAMES_TOLD], *(["..."] if len(known) > _NAMES_TOLD else [])])
    raise InvalidConfig(f"kubeconfig has no {field_name} named {shown(name)} (it has: {told or 'none'})")


def shown(name: str) -> str:
    """Return the name of a cluster, context or user for messages."""
    return repr(name[:_SHOWN])


def _check_fields(entry: Entry, field_name: str, name: str) -> None:
    for field in _TEXTS[field_name]:
        if not isinstance(entry.get(field), str | None):
            raise InvalidConfig(f"{field_name} {shown(name)}: {field} is not text: write it in quotes")
    for field in _FLAGS.get(field_name, ()):
        if not isinstance(entry.get(field), bool | None):
            raise InvalidConfig(f"{field_name} {shown(name)}: {field} is neither true nor false")


def context_of(document: Entry, context: str = "") -> tuple[str, Entry]:
    """Name and entry of a context, by default of the current one. Raises InvalidConfig."""
    name = context or document.get("current-context") or ""
    if not isinstance(name, str):
        raise InvalidConfig("kubeconfig: current-context is not text: write it in quotes")
    if not name:
        raise InvalidConfig("kubeconfig has no current-context: set it, or name a context")
    return name, named(document, "contexts", "context", name)


def cluster_of(document: Entry, context: str = "") -> Entry:
    """Return the cluster of a context. Raises InvalidConfig."""
    return named(document, "clusters", "cluster", context_of(document, context)[1].get("cluster") or "")


def token_of(document: Entry, context: str = "") -> str:
    """Return the token of a context's user, empty when it has none. Raises InvalidConfig."""
    user = context_of(document, context)[1].get("user")
    return str(named(document, "users", "user", user).get("token") or "").strip() if user else ""


def set_token(document: Entry, token: str, context: str = "") -> None:
    """Give the user of a context another token. Raises InvalidConfig."""
    named(document, "users", "user", context_of(document, context)[1].get("user") or "")["token"] = token


def with_token(name: str, cluster: Entry, namespace: str, token: str) -> Entry:
    """Return a kubeconfig with one context, all of whose parts have the same name."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
        "current-context": name,
    }


def embedded(pem: bytes) -> str:
    """Encode a value like the `-data` fields."""
    return base64.b64encode(pem).decode()


def read(path: Path) -> bytes:
    """Return a file's bytes. Raises InvalidConfig."""
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


def embed(document: Entry, files: Mapping[str, bytes]) -> None:
    """Replace names of files by their contents, if the field has a variant for contents (`-data`).

    :param files: contents by file name; directories in the document's names do not count
    """
    for field_name, entry in _entries(document):
        for field in _FILES.get(field_name, ()):
            name = str(entry.get(field) or "").rpartition("/")[2]
            if f"{field}-data" in _TEXTS[field_name] and name in files:
                del entry[field]
                entry[f"{field}-data"] = embedded(files[name])


def _entries(document: Entry) -> Iterator[tuple[str, Entry]]:
    """Yield all clusters, contexts and users, with the word for each."""
    for section, field_name in _SECTIONS:
        for item in _items(document, section):
            if isinstance(entry := item.get(field_name), dict):
                yield field_name, entry


def _absolute(document: Entry, base: Path) -> Entry:
    for field_name, entry in _entries(document):
        _resolve(entry, _FILES.get(field_name, ()), base)
    return document


def _resolve(entry: Entry, fields: Iterable[str], base: Path) -> None:
    for field in fields:
        if entry.get(field):
            entry[field] = str(base / Path(str(entry[field])).expanduser())
