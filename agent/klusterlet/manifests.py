"""Contents of a ManifestWork: its manifests in the order of apply, and the configuration of each. Pure."""

import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agent.api.conditions import is_true
from agent.api.kinds import Kind
from agent.api.names.links import OWN_GROUP
from agent.api.names.ocm import WORK_GROUP
from agent.api.names.prefixes import GROUP
from agent.api.names.works import ADOPT, ALTERNATIVES
from agent.klusterlet.rules import COMPLETE
from agent.model.applied import rank

Raw = dict[str, Any]

FOREGROUND, ORPHAN, SELECTIVELY_ORPHAN = "Foreground", "Orphan", "SelectivelyOrphan"
UPDATE, CREATE_ONLY, SERVER_SIDE_APPLY, READ_ONLY = "Update", "CreateOnly", "ServerSideApply", "ReadOnly"

_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STAGES = {"alpha": 0, "beta": 1, None: 2}
_UNPARSEABLE = 1000
"""Rank of a manifest without a kind, after all others."""


_OWN_GROUPS = (WORK_GROUP, OWN_GROUP, GROUP)


def barrier(group: str) -> str:
    """Return why no ManifestWork may write objects of an API group, whatever its rights; empty if it may."""
    if group not in _OWN_GROUPS:
        return ""
    return f"objects of {group} are not applied: they govern ManifestWorks or the agent; create them in the cluster"


class InvalidExecutor(Exception):
    """An executor that names no service account; the message is the reason."""


class Identity(NamedTuple):
    """An object, whatever version it is read in."""

    group: str
    resource: str
    namespace: str
    name: str

    @classmethod
    def of(cls, named: Mapping[str, Any]) -> "Identity":
        """Return the object that the fields of a map name, such as `resourceMeta`; missing ones are empty."""
        return cls(*(str(named.get(part) or "") for part in cls._fields))


class Meta(NamedTuple):
    """Identity of a manifest as in the status of a ManifestWork; `resource` is empty if the kind is not served."""

    ordinal: int
    group: str
    version: str
    kind: str
    resource: str
    namespace: str
    name: str

    @property
    def identity(self) -> Identity:
        """The object that the manifest describes."""
        return Identity(self.group, self.resource, self.namespace, self.name)

    def written(self) -> Raw:
        """Return the field `resourceMeta`."""
        return self._asdict()


class Manifest(NamedTuple):
    """One manifest of a ManifestWork."""

    ordinal: int
    raw: Raw

    @property
    def api_version(self) -> str:
        """Its apiVersion; empty if it has none."""
        return str(self.raw.get("apiVersion") or "")

    @property
    def kind(self) -> str:
        """Its kind; empty if it has none."""
        return str(self.raw.get("kind") or "")

    @property
    def metadata(self) -> Raw:
        """Its metadata; empty if it has none."""
        return self.raw.get("metadata") or {}

    def meta(self, kind: Kind | None) -> Meta:
        """Return its identity, with the resource and the scope of a served kind."""
        group, _, version = self.api_version.rpartition("/")
        namespaced = kind is None or kind.namespaced
        return Meta(
            ordinal=self.ordinal,
            group=group,
            version=version,
            kind=self.kind,
            resource=kind.plural if kind is not None else "",
            namespace=str(self.metadata.get("namespace") or "") if namespaced else "",
            name=str(self.metadata.get("name") or ""),
        )

    def body(self, kind: Kind) -> Raw:
        """Return the object to write, without UID, status and the annotations of ManifestWorks."""
        body: Raw = {key: value for key, value in self.raw.items() if key != "status"}
        metadata = {
            key: value
            for key, value in self.metadata.items()
            if key not in ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")
        }
        if not kind.namespaced:
            metadata.pop("namespace", None)
        if ALTERNATIVES in (metadata.get("annotations") or {}):
            metadata["annotations"] = {
                key: value for key, value in metadata["annotations"].items() if key != ALTERNATIVES
            }
        return {**body, "metadata": metadata}


@dataclass(frozen=True)
class Config:
    """Configuration of one manifest, from all entries that match it."""

    strategy: str = UPDATE
    apply: Mapping[str, Any] = field(default_factory=dict)
    """Options of server-side apply."""
    feedback: Sequence[Mapping[str, Any]] = ()
    conditions: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Work:
    """A ManifestWork, read."""

    raw: Raw

    @property
    def spec(self) -> Raw:
        """Its spec."""
        return self.raw.get("spec") or {}

    @property
    def generation(self) -> int:
        """Its generation."""
        return int(self.raw["metadata"].get("generation") or 0)

    @property
    def adopts(self) -> bool:
        """Whether objects that exist already are taken over."""
        return (self.raw["metadata"].get("annotations") or {}).get(ADOPT) != "false"

    @property
    def is_complete(self) -> bool:
        """Whether it has the condition Complete, after which nothing more is applied."""
        return is_true((self.raw.get("status") or {}).get("conditions"), COMPLETE)

    @functools.cached_property
    def completed(self) -> frozenset[Identity]:
        """Objects of manifests with the condition Complete, which are not applied again."""
        found: dict[Identity, bool] = {}
        for each in ((self.raw.get("status") or {}).get("resourceStatus") or {}).get("manifests") or ():
            identity = Identity.of(each.get("resourceMeta") or {})
            # Of several manifests for one object the first counts.
            found.setdefault(identity, is_true(each.get("conditions"), COMPLETE))
        return frozenset(identity for identity, is_completed in found.items() if is_completed)

    @property
    def manifests(self) -> list[Manifest]:
        """All manifests in the order of apply, by kind; equal kinds as written."""
        raws = (self.spec.get("workload") or {}).get("manifests") or []
        found = [Manifest(number, raw) for number, raw in enumerate(raws)]
        return sorted(found, key=lambda each: rank(each.kind) if each.kind else _UNPARSEABLE)

    @property
    def executor(self) -> str:
        """User name of the executor's service account; empty without an executor. Raises InvalidExecutor."""
        executor = self.spec.get("executor")
        if executor is None:
            return ""
        account = (executor.get("subject") or {}).get("serviceAccount") or {}
        if not account.get("namespace") or not account.get("name"):
            raise InvalidExecutor("spec.executor.subject.serviceAccount lacks a namespace or name: add it")
        return f"system:serviceaccount:{account['namespace']}:{account['name']}"

    def config(self, meta: Meta) -> Config:
        """Return the configuration of a manifest: for each part, the first matching entry that has it."""
        found = [each for each in self.spec.get("manifestConfigs") or () if _matches(each, meta)]
        strategy: Mapping[str, Any] = next((each["updateStrategy"] for each in found if each.get("updateStrategy")), {})
        return Config(
            strategy=str(strategy.get("type") or UPDATE),
            apply=strategy.get("serverSideApply") or {},
            feedback=next((each["feedbackRules"] for each in found if each.get("feedbackRules")), ()),
            conditions=next((each["conditionRules"] for each in found if each.get("conditionRules")), ()),
        )

    def owns(self, identity: Identity) -> bool:
        """Return whether the deletion of the ManifestWork deletes an object."""
        option = self.spec.get("deleteOption") or {}
        policy = option.get("propagationPolicy") or FOREGROUND
        return identity not in self._orphans if policy == SELECTIVELY_ORPHAN else bool(policy != ORPHAN)

    @functools.cached_property
    def _orphans(self) -> frozenset[Identity]:
        option = (self.spec.get("deleteOption") or {}).get("selectivelyOrphans") or {}
        return frozenset(map(Identity.of, option.get("orphaningRules") or ()))


def _matches(config: Mapping[str, Any], meta: Meta) -> bool:
    named = config.get("resourceIdentifier") or {}
    return (
        str(named.get("group") or "") == meta.group
        and named.get("resource") == meta.resource
        and _is_like(str(named.get("namespace") or ""), meta.namespace)
        and _is_like(str(named.get("name") or ""), meta.name)
    )


def _is_like(pattern: str, text: str) -> bool:
    """Return whether a text matches a pattern in which `*` stands for any characters, in linear time."""
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == text
    last = rest.pop()
    if not text.startswith(first) or not text.endswith(last) or len(text) < len(first) + len(last):
        return False
    position, end = len(first), len(text) - len(last)
    for part in rest:
        found = text.find(part, position, end)
        if found < 0:
            return False
        position = found + len(part)
    return True


def age(api_version: str) -> tuple[int, int, int, int]:
    """Return the sort key of an API version by Kubernetes' version priority: others, v1alpha1, v1beta1, v1, v2."""
    match = _VERSION.fullmatch(api_version.rpartition("/")[2])
    if match is None:
        return (0, 0, 0, 0)
    return (1, _STAGES[match[2]], int(match[1]), int(match[3] or 0))


def skipped(manifests: Iterable[Manifest], served: Mapping[int, Kind | None]) -> dict[int, Manifest]:
    """Return the manifests that are not applied because of an alternative, by ordinal, with that alternative.

    The newest served version is applied; if none is served, the newest one is tried.
    """
    groups: dict[tuple[str, ...], list[Manifest]] = {}
    for each in manifests:
        group = (each.metadata.get("annotations") or {}).get(ALTERNATIVES)
        if group is not None:
            of = (str(group), each.kind, str(each.metadata.get("namespace") or ""), str(each.metadata.get("name")))
            groups.setdefault(of, []).append(each)
    found = {}
    for group_of_one in groups.values():
        chosen = max(
            group_of_one,
            key=lambda each: (served.get(each.ordinal) is not None, age(each.api_version), -each.ordinal),
        )
        found.update({each.ordinal: chosen for each in group_of_one if each is not chosen})
    return found


def digest(*parts: object) -> bytes:
    """Return a digest of JSON values, such as a manifest and its options."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()
