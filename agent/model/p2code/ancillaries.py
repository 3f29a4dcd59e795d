"""What belongs to a workload: every other object of its application that it, or what belongs to it, refers to. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from agent.model.p2code.manifests import DEFAULT, Manifest, Raw, at, is_at, objects, selects, text, texts
from agent.model.references import ROOT_CA

_RBAC = ("rbac.authorization.k8s.io", "authorization.openshift.io")
_SYSTEM = "system:"


class Absent(NamedTuple):
    """An object that a workload refers to and that is not in the application."""

    kind: str
    name: str


class Belongings(NamedTuple):
    """What belongs to a workload."""

    manifests: tuple[Manifest, ...]
    """Without the workload itself."""
    absent: tuple[Absent, ...]


class Index:
    """The objects of an application by what they are looked up by."""

    def __init__(self, manifests: Iterable[Manifest]) -> None:
        self._named: dict[tuple[str, str, str], Manifest] = {}
        self._in: dict[tuple[str, str], list[Manifest]] = defaultdict(list)
        self._bindings: dict[tuple[str, str], list[Manifest]] = defaultdict(list)
        self._routed: dict[tuple[str, str, str], list[Manifest]] = defaultdict(list)
        self._scaled: dict[tuple[str, str, str, str], list[Manifest]] = defaultdict(list)
        self._monitors: list[Manifest] = []
        for each in manifests:
            self._named.setdefault((each.kind, each.namespace, each.name), each)
            self._in[each.kind, each.namespace].append(each)
            self._add(each)

    def _add(self, each: Manifest) -> None:
        match each.kind:
            case "ClusterRoleBinding" | "RoleBinding" if each.identity.group in _RBAC:
                for account in dict.fromkeys(_accounts(each.raw)):
                    self._bindings[account].append(each)
            case "Ingress":
                for service in dict.fromkeys(_backends(each.raw)):
                    self._routed["Ingress", each.namespace, service].append(each)
            case "Route" if text(each.raw, "spec", "to", "kind") == "Service":
                self._routed["Route", each.namespace, text(each.raw, "spec", "to", "name")].append(each)
            case "ServiceMonitor":
                self._monitors.append(each)
            case "HorizontalPodAutoscaler":
                scaled = at(each.raw, "spec", "scaleTargetRef")
                key = (text(scaled, "apiVersion"), text(scaled, "kind"), text(scaled, "name"))
                self._scaled[*key, each.namespace].append(each)
            case _:
                pass

    def named(self, kind: str, namespace: str, name: str) -> Manifest | None:
        """An object by its name."""
        return self._named.get((kind, namespace, name))

    def all(self, kind: str, namespace: str) -> Sequence[Manifest]:
        """All of a kind in a namespace, in the order in which they were written."""
        return self._in.get((kind, namespace), ())

    def bindings(self, kind: str, namespace: str, account: str) -> Iterator[Manifest]:
        """Those of a kind that name a service account."""
        return (each for each in self._bindings.get((namespace, account), ()) if each.kind == kind)

    def leading_to(self, kind: str, service: Manifest) -> Sequence[Manifest]:
        """Ingresses or Routes that lead to a Service."""
        return self._routed.get((kind, service.namespace, service.name), ())

    def monitors(self, service: Manifest) -> Iterator[Manifest]:
        """ServiceMonitors that look at a Service."""
        return (each for each in self._monitors if _monitors(each, service))

    def scaling(self, workload: Manifest) -> Sequence[Manifest]:
        """What changes the number of a workload's pods."""
        version = text(workload.raw, "apiVersion")
        return self._scaled.get((version, workload.kind, workload.name, workload.namespace), ())


def belongings(workload: Manifest, index: Index) -> Belongings:
    """What belongs to a workload, in the order in which P2CODE's scheduler looks for it."""
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
        for kind, field in (("NetworkPolicy", "podSelector"), ("PodDisruptionBudget", "selector")):
            rules = self._index.all(kind, self._namespace)
            self._add(each for each in rules if self._selected(each, field))
        return Belongings(tuple(self._found), tuple(self._absent))

    def _add(self, manifests: Iterable[Manifest]) -> None:
        self._found |= dict.fromkeys(manifests)

    def _take(self, kind: str, name: str, *, optional: bool = False, namespace: str | None = None) -> None:
        found = self._index.named(kind, self._namespace if namespace is None else namespace, name)
        if found is not None:
            self._add([found])
        elif not optional and name:
            self._absent.append(Absent(kind, name))

    def _selected(self, rule: Manifest, field: str) -> bool:
        return selects(at(rule.raw, "spec").get(field), self._workload.pod_labels)

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
            self._add(each for each in claims if _is_numbered(each.name, begin))

    def _source(self, where: Raw, field: str, kind: str, name: str = "name") -> None:
        if is_at(where, field):
            source = at(where, field)
            optional = source.get("optional") is True or (kind == "ConfigMap" and source.get(name) == ROOT_CA)
            self._take(kind, text(source, name), optional=optional)

    def _account(self) -> None:
        name = text(self._spec, "serviceAccountName")
        # Every namespace has one of that name.
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
        labels = self._workload.pod_labels
        for service in self._index.all("Service", self._namespace):
            selector = at(service.raw, "spec", "selector")
            if selector and selector.items() <= labels.items():
                self._add([service])
        for service in [each for each in self._found if each.kind == "Service"]:
            for ingress in self._index.leading_to("Ingress", service):
                self._add([ingress])
                for tls in objects(ingress.raw, "spec", "tls"):
                    # Whoever issues certificates makes it, as a rule.
                    self._take("Secret", text(tls, "secretName"), optional=True)
            self._add(self._index.leading_to("Route", service))
            self._add(self._index.monitors(service))


def _accounts(binding: Raw) -> Iterator[tuple[str, str]]:
    for subject in objects(binding, "subjects"):
        if subject.get("kind") == "ServiceAccount" and text(subject, "namespace"):
            yield text(subject, "namespace"), text(subject, "name")


def _backends(ingress: Raw) -> Iterator[str]:
    """Services that an Ingress leads to."""
    if is_at(ingress, "spec", "defaultBackend", "service"):
        yield text(ingress, "spec", "defaultBackend", "service", "name")
    for rule in objects(ingress, "spec", "rules"):
        for path in objects(rule, "http", "paths"):
            yield text(path, "backend", "service", "name")


def _monitors(monitor: Manifest, service: Manifest) -> bool:
    """By labels of the Service, as the Prometheus operator selects, or by its selector, as P2CODE's scheduler does."""
    among = at(monitor.raw, "spec", "namespaceSelector")
    namespaces = texts(among, "matchNames") or [monitor.namespace]
    if among.get("any") is not True and service.namespace not in namespaces:
        return False
    selector = at(monitor.raw, "spec", "selector")
    if not selector:
        return False
    return selects(selector, at(service.raw, "metadata", "labels")) or any(
        _has_pair(selector, key, value) for key, value in at(service.raw, "spec", "selector").items()
    )


def _has_pair(selector: Raw, key: str, value: Any) -> bool:
    if at(selector, "matchLabels").get(key) == value:
        return True
    return any(
        text(each, "key") == key and each.get("operator") == "In" and value in texts(each, "values")
        for each in objects(selector, "matchExpressions")
    )


def _is_numbered(name: str, begin: str) -> bool:
    number = name.removeprefix(begin)
    return number != name and number.isascii() and number.isdecimal()
