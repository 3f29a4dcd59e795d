"""Pod info: constraints of a proxy pod, parsed from its manifest and its annotations once per pod."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict
from weakref import WeakValueDictionary

import msgspec

from agent.api import names
from agent.clusters.stores.claim_filters import asked_by
from agent.kube.store import Object
from agent.model import additions
from agent.model.claimfilter import Level
from agent.model.delegatepod import check as check_delegate
from agent.model.errors import InvalidPod
from agent.model.manifest import source_pod
from agent.ranking.demand import Demand, demand_of, kept_constraints, template_of
from agent.ranking.snapshot import PodInfo, PodTemplate
from agent.scheduler.failed_targets import failed_targets_of, read_failed_targets

_ATTEMPTS = names.ANNOTATION_ATTEMPTS.encode()
_CHECKED = (names.NO_PREFIX_REGEXP.encode(), b"metadata.annotations[")
"""Text that occurs in every pod whose regular expression, or length of environment variables, may be invalid."""
_SHORT = 20_000
"""Size in bytes below which a pod cannot refer to too many objects."""


class _Container(TypedDict, total=False):
    image: str
    ports: Any
    resources: Any
    restartPolicy: str


class _Spec(TypedDict, total=False):
    """The fields that scheduling reads."""

    nodeSelector: Any
    affinity: Any
    tolerations: Any
    topologySpreadConstraints: Any
    containers: list[_Container]
    initContainers: list[_Container] | None
    overhead: Any
    resources: Any
    hostNetwork: bool
    activeDeadlineSeconds: int | None
    priority: int | None
    priorityClassName: str


class _Annotations(msgspec.Struct):
    manifest: str | None = msgspec.field(default=None, name=names.ANNOTATION_MANIFEST)


class _ProxyMetadata(msgspec.Struct):
    annotations: _Annotations | None = None


class _Proxy(msgspec.Struct):
    metadata: _ProxyMetadata
    spec: _Spec


class _SourceMetadata(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _SourceSpec(TypedDict, total=False):
    nodeSelector: Any
    affinity: Any
    tolerations: Any
    schedulerName: Any
    containers: list[msgspec.Raw]


class _Source(msgspec.Struct):
    spec: _SourceSpec
    metadata: _SourceMetadata | None = None
    kind: str = "Pod"


_proxy_decoder = msgspec.json.Decoder(_Proxy)
_source_decoder = msgspec.json.Decoder(_Source)


class _Known(NamedTuple):
    generation: int
    version: str
    labels: Mapping[str, str]
    pod_info: PodInfo
    flaw: InvalidPod | None


class PodInfos:
    """Demands of proxy pods, cached by UID. Pods with equal demands share one `PodTemplate`."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._templates: WeakValueDictionary[bytes, PodTemplate] = WeakValueDictionary()
        self._namespaces: dict[str, dict[str, str]] = {}
        self._silent: dict[str, str] = {}
        """Version at which a pod was found to ask for no claims, by UID."""

    def __len__(self) -> int:
        return len(self._known)

    def of(self, pod: Object) -> PodInfo:
        """Return the demand of a proxy pod.

        :raises InvalidPod: if its manifest is unusable
        """
        known = self._read(pod)
        if known.flaw is not None:
            raise known.flaw
        if _ATTEMPTS in pod.raw:
            attempts = read_failed_targets(pod.annotations.get(names.ANNOTATION_ATTEMPTS))
            return known.pod_info.after({node: attempt.reason for node, attempt in attempts.items()})
        return known.pod_info

    def about(self, pod: Object) -> PodInfo:
        """Return the demand of a pod that has a target, without attempts, even if its manifest is unusable."""
        return self._read(pod).pod_info

    def asks(self, pod: Object) -> Level | None:
        """Return the claims that a pod itself asks for; None if none."""
        if self._silent.get(pod.uid) == pod.version:
            return None
        asked = asked_by(pod)
        if asked is None:
            self._silent[pod.uid] = pod.version
        return asked

    def forget(self, uid: str) -> None:
        """Drop the cached demand of a deleted pod."""
        self._known.pop(uid, None)
        self._silent.pop(uid, None)

    def relabel(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Cache a namespace's labels. Return True if that changes an existing demand."""
        known = self._namespaces.get(namespace)
        if known is None:
            self._namespaces[namespace] = dict(labels)
            return False
        if known == labels:
            return False
        known.clear()
        known.update(labels)
        return True

    def _read(self, pod: Object) -> _Known:
        known = self._known.get(pod.uid)
        if known is None or known.labels != pod.labels or not _same_spec(known, pod) or _may_be_repaired(known, pod):
            known = self._known[pod.uid] = self._parse(pod)
        return known

    def _parse(self, pod: Object) -> _Known:
        proxy = _proxy_decoder.decode(pod.raw)
        annotations = proxy.metadata.annotations
        flaw: InvalidPod | None = None
        demand = Demand(proxy.spec, {})
        try:
            demand = _demand(proxy.spec, annotations.manifest if annotations else None, pod)
        except InvalidPod as error:
            flaw = error
        else:
            flaw = _flaw(pod)
        pod_info = PodInfo(
            template=self._shared(pod.namespace, demand),
            name=pod.name,
            uid=pod.uid,
            labels=pod.labels,
            namespace_labels=self._namespaces.setdefault(pod.namespace, {}),
            priority=proxy.spec.get("priority") or 0,
        )
        return _Known(pod.head.metadata.generation, pod.version, pod.labels, pod_info, flaw)

    def _shared(self, namespace: str, demand: Demand) -> PodTemplate:
        key = msgspec.json.encode((namespace, {**demand.spec, "priority": 0}, demand.source))
        template = self._templates.get(key)
        if template is None:
            template = self._templates[key] = template_of(namespace, demand.spec, demand.source)
        return template


def _same_spec(known: _Known, pod: Object) -> bool:
    generation = pod.head.metadata.generation
    if generation:
        return known.generation == generation
    # Pods have no generation before Kubernetes 1.34. A bound pod's spec hardly changes.
    return bool(pod.node_name) or known.version == pod.version


def _flaw(pod: Object) -> InvalidPod | None:
    """Return why a pod without a node can have no delegate. The webhook refuses such pods, but may have been
    bypassed.
    """
    raw = pod.raw
    if pod.node_name or not (len(raw) > _SHORT or any(each in raw for each in _CHECKED)):
        return None
    try:
        check_delegate(pod.decode())
    except InvalidPod as error:
        return error
    return None


def _may_be_repaired(known: _Known, pod: Object) -> bool:
    """Return True if annotations may have changed since a flaw was found; they do not change the generation."""
    return known.flaw is not None and known.version != pod.version


def pod_info_of(proxy: Mapping[str, Any]) -> PodInfo:
    """Return the demand of one proxy pod.

    :raises InvalidPod: if its manifest is unusable
    """
    metadata, spec = proxy["metadata"], proxy["spec"]
    return PodInfo(
        template=template_of(metadata["namespace"], *demand_of(spec, source_pod(proxy))),
        name=metadata.get("name") or "",
        uid=metadata.get("uid") or "",
        labels=metadata.get("labels") or {},
        priority=spec.get("priority") or 0,
        attempts={node: attempt.reason for node, attempt in failed_targets_of(proxy).items()},
    )


def _demand(spec: _Spec, manifest: str | None, pod: Object) -> Demand:
    """Return the constraints of a proxy pod; decodes only the needed fields if the manifest is JSON, as nearly all
    are.
    """
    if manifest is not None and not additions.may_be(spec):
        try:
            source = _source_decoder.decode(manifest)
        except (msgspec.DecodeError, RecursionError):
            pass
        else:
            if source.kind == "Pod" and source.spec.get("containers"):
                annotations = source.metadata.annotations if source.metadata else None
                return Demand(spec, kept_constraints(annotations, source.spec))
    return demand_of(spec, source_pod(pod.decode()))
