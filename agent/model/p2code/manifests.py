"""Manifests of an application: supported kinds, workloads, and their pod templates. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

Raw = Mapping[str, Any]

MANIFESTS = 1000
"""Maximum number of objects in one application: the event loop processes all of them when any one changes."""

_ALL = frozenset[str]()
_SUPPORTED: Mapping[str, frozenset[str]] = {
    "v1": _ALL,
    "apps/v1": _ALL,
    "batch/v1": _ALL,
    "rbac.authorization.k8s.io/v1": _ALL,
    "authorization.openshift.io/v1": _ALL,
    "route.openshift.io/v1": _ALL,
    "networking.k8s.io/v1": _ALL,
    "autoscaling/v2": _ALL,
    "policy/v1": frozenset(("PodDisruptionBudget",)),
    "monitoring.coreos.com/v1": frozenset(("ServiceMonitor",)),
}
"""Supported kinds by apiVersion; an empty set means all kinds of it."""
_UNSUPPORTED = frozenset((("v1", "PersistentVolume"),))
_WITHOUT_NAMESPACE = frozenset(("Namespace", "ClusterRole", "ClusterRoleBinding"))
_TEMPLATES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "Pod"): (),
    ("apps", "Deployment"): ("spec", "template"),
    ("apps", "StatefulSet"): ("spec", "template"),
    ("apps", "ReplicaSet"): ("spec", "template"),
    ("apps", "DaemonSet"): ("spec", "template"),
    ("batch", "Job"): ("spec", "template"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
}
"""Path of the pod template in each kind of workload."""
_NEVER_HERE = ("apps", "DaemonSet")
"""A DaemonSet has a pod on every node, so no target is selected for its pods."""
_OF_WORKLOADS = ("apps", "batch")
DEFAULT = "default"


class InvalidManifest(ValueError):
    """A manifest that cannot be part of an application; the message is P2CODE's."""


class Identity(NamedTuple):
    """Unique key of an object."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {where}{self.name}"


class Manifest:
    """One object of an application, as its author wrote it."""

    def __init__(self, raw: Raw, identity: Identity) -> None:
        self.raw = raw
        self.identity = identity

    def __repr__(self) -> str:
        return f"<{self.identity}>"

    @property
    def kind(self) -> str:
        """Kind of the object."""
        return self.identity.kind

    @property
    def namespace(self) -> str:
        """Empty for a cluster-scoped object."""
        return self.identity.namespace

    @property
    def name(self) -> str:
        """Name of the object."""
        return self.identity.name

    @property
    def is_workload(self) -> bool:
        """Whether it creates pods."""
        return self.identity[:2] in _TEMPLATES

    @property
    def template_path(self) -> tuple[str, ...]:
        """Path of the pod template, empty for a Pod; only for workloads."""
        return _TEMPLATES[self.identity[:2]]

    @cached_property
    def template(self) -> Raw:
        """Its pod template, or the Pod itself; only for workloads."""
        return at(self.raw, *self.template_path)

    @property
    def pod_labels(self) -> Raw:
        """Labels of its pods."""
        return at(self.template, "metadata", "labels")

    @property
    def annotations(self) -> Raw:
        """Its own annotations."""
        return at(self.raw, "metadata", "annotations")


class Reading(NamedTuple):
    """Parsed manifests of an application."""

    manifests: tuple[Manifest, ...]
    duplicates: tuple[Manifest, ...]
    """Later manifests of the same identity, which are ignored."""

    @property
    def workloads(self) -> Iterator[Manifest]:
        """Manifests that create pods."""
        return (each for each in self.manifests if each.is_workload)

    @property
    def made(self) -> frozenset[str]:
        """Namespaces that the application creates."""
        return frozenset(each.name for each in self.manifests if each.identity[:2] == ("", "Namespace"))

    @property
    def namespaces(self) -> frozenset[str]:
        """Namespaces of its objects."""
        return frozenset(each.namespace for each in self.manifests if each.namespace)


def read(manifests: Iterable[Raw], *, here: bool = True) -> Reading:
    """Parse the manifests of a P2CodeSchedulingManifest.

    :param here: whether they are applied in the local cluster
    :raises InvalidManifest: for the first manifest that is not supported
    """
    manifests = list(manifests)
    if len(manifests) > MANIFESTS:
        raise InvalidManifest(
            f"invalid manifest: spec.manifests has {len(manifests)} objects, of at most {MANIFESTS}: split the "
            "application"
        )
    found: dict[Identity, Manifest] = {}
    duplicates = []
    for index, raw in enumerate(manifests, start=1):
        identity = _identity(raw, index, here=here)
        manifest = Manifest(raw, identity)
        if found.setdefault(identity, manifest) is not manifest:
            duplicates.append(manifest)
    return Reading(tuple(found.values()), tuple(duplicates))


def _identity(raw: Raw, index: int, *, here: bool) -> Identity:
    version, kind = text(raw, "apiVersion"), text(raw, "kind")
    name, namespace = text(raw, "metadata", "name"), text(raw, "metadata", "namespace")
    if not version or not kind:
        raise InvalidManifest(f"invalid manifest: manifest {index} has no {'kind' if version else 'apiVersion'}")
    group, slash, _ = version.rpartition("/")
    kinds = _SUPPORTED.get(version)
    taken = kinds is not None and (not kinds or kind in kinds) and (version, kind) not in _UNSUPPORTED
    if here and (group, kind) == _NEVER_HERE:
        taken = False
    if not taken or (slash and group in _OF_WORKLOADS and (group, kind) not in _TEMPLATES):
        raise InvalidManifest(
            f"unsupported manifest: the cluster admin is responsible for managing {kind.lower()} resources"
        )
    if not name:
        raise InvalidManifest(f"invalid manifest: missing name for {kind.lower()} (manifest {index})")
    if kind in _WITHOUT_NAMESPACE:
        return Identity(group, kind, "", name)
    if not namespace:
        raise InvalidManifest(f"invalid manifest: missing namespace for {kind.lower()} with the name {name}")
    return Identity(group, kind, namespace, name)


def at(raw: Any, *path: str) -> Raw:
    """Return the object at a path of fields, an empty one if there is none: manifests are not validated."""
    for field in path:
        raw = raw.get(field) if isinstance(raw, Mapping) else None
    return raw if isinstance(raw, Mapping) else {}


def text(raw: Any, *path: str) -> str:
    """Return the string at a path of fields, empty if there is none."""
    found = at(raw, *path[:-1]).get(path[-1])
    return found if isinstance(found, str) else ""


def objects(raw: Any, *path: str) -> Sequence[Raw]:
    """Return the objects of the list at a path of fields."""
    found = at(raw, *path[:-1]).get(path[-1])
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else ()


def texts(raw: Any, *path: str) -> Sequence[str]:
    """Return the strings of the list at a path of fields."""
    found = at(raw, *path[:-1]).get(path[-1])
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else ()


def is_at(raw: Raw, *path: str) -> bool:
    """Return whether there is an object at a path of fields."""
    return isinstance(at(raw, *path[:-1]).get(path[-1]), Mapping)


def selects(selector: Any, labels: Raw) -> bool:
    """Return whether a label selector matches; an empty one matches everything, None matches nothing."""
    if not isinstance(selector, Mapping):
        return False
    if any(labels.get(key) != value for key, value in at(selector, "matchLabels").items()):
        return False
    return all(_holds(each, labels) for each in objects(selector, "matchExpressions"))


def _holds(expression: Raw, labels: Raw) -> bool:
    key, values = text(expression, "key"), texts(expression, "values")
    match expression.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return False
