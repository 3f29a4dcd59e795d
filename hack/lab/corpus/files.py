"""Manifests in a directory, and the names in a cluster that each of them needs exclusively."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hack.lab.corpus.errors import CorpusError

Raw = dict[str, Any]

OWN = Path(__file__).with_name("manifests")
"""The corpus of this repository."""
_SUFFIXES = (".yaml", ".yml", ".json")
_CLUSTER_WIDE = frozenset(
    (
        "APIService",
        "ClusterRole",
        "ClusterRoleBinding",
        "CSIDriver",
        "CustomResourceDefinition",
        "IngressClass",
        "MutatingWebhookConfiguration",
        "PersistentVolume",
        "PriorityClass",
        "RuntimeClass",
        "StorageClass",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
        "VolumeAttributesClass",
    )
)
_HELD_BY_ALL = "kube-"
"""Prefix of the system namespaces. Several manifests may write into such a namespace at the same time."""


@dataclass(frozen=True)
class File:
    """A file with one or several manifests."""

    name: str
    """Path within the directory."""
    path: Path
    objects: Sequence[Raw]

    @property
    def home(self) -> str:
        """Namespace of objects without one; no other file uses it."""
        stem = "".join(char if char.isalnum() else "-" for char in self.name.rpartition(".")[0].lower())
        return f"corpus-{stem.strip('-')}"[:60].rstrip("-")

    @property
    def namespaces(self) -> list[str]:
        """Namespaces of the file without system namespaces, `home` first."""
        named = {str(obj["metadata"]["namespace"]) for obj in self.objects if obj["metadata"].get("namespace")}
        named |= {str(obj["metadata"]["name"]) for obj in self.objects if obj["kind"] == "Namespace"}
        return [self.home, *sorted(each for each in named if not each.startswith(_HELD_BY_ALL))]

    @property
    def claims(self) -> frozenset[str]:
        """Names that no other file may use at the same time: namespaces, and cluster-scoped objects."""
        wide = {f"{obj['kind']}/{obj['metadata'].get('name')}" for obj in self.objects if obj["kind"] in _CLUSTER_WIDE}
        return frozenset({*self.namespaces, *wide})

    @property
    def generated(self) -> bool:
        """Whether an object has no name: kubectl can create it, but not apply it."""
        return any("name" not in obj["metadata"] for obj in self.objects)


def read(directory: Path) -> list[File]:
    """Return all manifests in a directory and below, by name. Raises CorpusError that lists all invalid files."""
    if not directory.is_dir():
        raise CorpusError(f"{directory} is no directory: name one that has manifests ({', '.join(_SUFFIXES)})")
    paths = sorted(path for path in directory.rglob("*") if path.suffix in _SUFFIXES and path.is_file())
    if not paths:
        raise CorpusError(f"{directory} has no manifests: files ending in {', '.join(_SUFFIXES)}")
    files, flaws = [], []
    for path in paths:
        try:
            files.append(read_file(path, str(path.relative_to(directory))))
        except CorpusError as error:
            flaws.append(str(error))
    if flaws:
        raise CorpusError("\n".join(flaws))
    return files


def read_file(path: Path, name: str) -> File:
    """Return one file. Raises CorpusError with file, object and field."""
    try:
        documents = [each for each in yaml.safe_load_all(path.read_text()) if each is not None]
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"{name} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        what = getattr(error, "problem", None) or str(error)
        raise CorpusError(f"{name}{where} is not YAML: {what}") from error
    objects = list(_objects(name, documents))
    if not objects:
        raise CorpusError(f"{name} has no objects: take it out of the directory")
    return File(name, path, objects)


def _objects(name: str, documents: Sequence[Any]) -> Iterator[Raw]:
    for number, document in enumerate(documents, 1):
        where = f"{name}, document {number}"
        if not isinstance(document, dict):
            raise CorpusError(f"{where}: an object is wanted, not {type(document).__name__}")
        if str(document.get("kind", "")).endswith("List") and isinstance(document.get("items"), list):
            yield from _objects(f"{where}, items", document["items"])
            continue
        for field in ("apiVersion", "kind"):
            if not isinstance(document.get(field), str) or not document[field]:
                raise CorpusError(f"{where}: {field} is missing: write it, such as `{field}: {_EXAMPLES[field]}`")
        metadata = document.get("metadata")
        if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
            raise CorpusError(f"{where}, {document['kind']}: metadata.name is missing (or metadata.generateName)")
        yield document


_EXAMPLES = {"apiVersion": "apps/v1", "kind": "Deployment"}
