"""Objects that belong to a workload: it refers to them, directly or through others of its application. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from agent.model.p2code.index import Index
from agent.model.p2code.manifests import (
    DEFAULT,
    Manifest,
    Raw,
    at,
    is_at,
    objects,
    text,
)
from agent.model.references import ROOT_CA

_SYSTEM = "system:"


class Absent(NamedTuple):
    """An object that a workload refers to and that is not in the application."""

    kind: str
    name: str


class Belongings(NamedTuple):
    """Objects that belong to a workload."""

    manifests: tuple[Manifest, ...]
    """Without the workload itself."""
    absent: tuple[Absent, ...]


def belongings(workload: Manifest, index: Index) -> Belongings:
    """Return the objects that belong to a workload, in the order of P2CODE's scheduler."""
    return _Search(workload, index).found()


class _Search:
    def __init__(self, workload: Manifest, index: Index) -> None:
        self._workload = workload
        self._namespace = workload.namespace
        self._spec = at(workload.template, "spec")
        self._index = index
        self._found: dict[Manifest, None] = {}
        self._absent: list[Absent] = []

    def found(self) -> Belongings:
        if self._namespace != DEFAULT:
            self._take("Namespace", self._namespace, optional=True, namespace="")
        for secret in objects(self._spec, "imagePullSecrets"):
            self._take("Secret", text(secret, "name"))
        self._volumes()
        self._account()
        for field in ("containers", "initContainers"):
            for container in objects(self._spec, field):
                self._container(container)
        self._services()
        self._add(self._index.scaling(self._workload))
        for kind in ("NetworkPolicy", "PodDisruptionBudget"):
            self._add(self._index.selecting(kind, self._workload))
        return Belongings(tuple(self._found), tuple(self._absent))

    def _add(self, manifests: Iterable[Manifest]) -> None:
        added = dict.fromkeys(manifests)
        self._index.spend(len(added))
        self._found |= added

    def _take(self, kind: str, name: str, *, optional: bool = False, namespace: str | None = None) -> None:
        found = self._index.named(kind, self._namespace if namespace is None else namespace, name)
        if found is not None:
            self._add([found])
        elif not optional and name:
            self._absent.append(Absent(kind, name))

    def _volumes(self) -> None:
        volumes = objects(self._spec, "volumes")
        for volume in volumes:
            self._take("PersistentVolumeClaim", text(volume, "persistentVolumeClaim", "claimName"))
            self._source(volume, "configMap", "ConfigMap")
            self._source(volume, "secret", "Secret", "secretName")
            for source in objects(volume, "projected", "sources"):
                self._source(source, "configMap", "ConfigMap")
                self._source(source, "secret", "Secret")
        for template in objects(self._workload.raw, "spec", "volumeClaimTemplates"):
            begin = f"{text(template, 'metadata', 'name')}-{self._workload.name}-"
            claims = self._index.all("PersistentVolumeClaim", self._namespace)
            self._index.spend(len(claims))
            self._add(each for each in claims if _is_numbered(each.name, begin))

    def _source(self, where: Raw, field: str, kind: str, name: str = "name") -> None:
        if is_at(where, field):
            source = at(where, field)
            optional = source.get("optional") is True or (kind == "ConfigMap" and source.get(name) == ROOT_CA)
            self._take(kind, text(source, name), optional=optional)

    def _account(self) -> None:
        name = text(self._spec, "serviceAccountName")
        # Every namespace has a service account of that name.
        self._take("ServiceAccount", name, optional=name == DEFAULT)
        if self._index.named("ServiceAccount", self._namespace, name) is None:
            return
        for kind in ("ClusterRoleBinding", "RoleBinding"):
            for binding in self._index.bindings(kind, self._namespace, name):
                self._binding(binding)

    def _binding(self, binding: Manifest) -> None:
        kind, name = text(binding.raw, "roleRef", "kind"), text(binding.raw, "roleRef", "name")
        if name.startswith(_SYSTEM):
            self._add([binding])
            return
        role = self._index.named(kind, "" if kind == "ClusterRole" else binding.namespace, name)
        if role is None:
            self._absent.append(Absent(kind, name))
        else:
            self._add([binding, role])

    def _container(self, container: Raw) -> None:
        for source in objects(container, "envFrom"):
            self._source(source, "configMapRef", "ConfigMap")
            self._source(source, "secretRef", "Secret")
        for variable in objects(container, "env"):
            self._source(at(variable, "valueFrom"), "configMapKeyRef", "ConfigMap")
            self._source(at(variable, "valueFrom"), "secretKeyRef", "Secret")

    def _services(self) -> None:
        if self._workload.kind == "StatefulSet":
            self._take("Service", text(self._workload.raw, "spec", "serviceName"))
        self._add(self._index.selecting("Service", self._workload))
        for service in [each for each in self._found if each.kind == "Service"]:
            for ingress in self._index.leading_to("Ingress", service):
                self._add([ingress])
                for tls in objects(ingress.raw, "spec", "tls"):
                    # A certificate issuer usually creates it.
                    self._take("Secret", text(tls, "secretName"), optional=True)
            self._add(self._index.leading_to("Route", service))
            self._add(self._index.monitors(service))


def _is_numbered(name: str, begin: str) -> bool:
    number = name.removeprefix(begin)
    return number != name and number.isascii() and number.isdecimal()
