"""Indexes of the objects of an application, and a bound on the comparisons that lookups take. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from agent.model.p2code.manifests import InvalidManifest, Manifest, Raw, at, is_at, objects, selects, text, texts

COMPARISONS = 2_000_000
"""Maximum number of compared selector terms when objects are assigned to workloads: 1 to 2 s of CPU time."""

_SELECTORS = {"Service": "selector", "NetworkPolicy": "podSelector", "PodDisruptionBudget": "selector"}
"""Kinds that select pods, and the fields of their selectors."""
_RBAC = ("rbac.authorization.k8s.io", "authorization.openshift.io")


class _Selecting:
    """Objects of one kind with selectors, found by a label that pods must have."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, Any], list[int]] = defaultdict(list)
        self._others: list[int] = []
        """Objects whose selectors require no value of a label."""
        self._all: list[Manifest] = []

    def add(self, each: Manifest) -> None:
        selector = at(each.raw, "spec", _SELECTORS[each.kind])
        pairs = selector if each.kind == "Service" else at(selector, "matchLabels")
        number = len(self._all)
        self._all.append(each)
        first = next((pair for pair in pairs.items() if isinstance(pair[1], str)), None)
        (self._by_label[first] if first is not None else self._others).append(number)

    def candidates(self, labels: Raw) -> Sequence[Manifest]:
        """Return objects that may select pods with these labels, in the order of the manifests."""
        pairs = (pair for pair in labels.items() if isinstance(pair[1], str))
        found = [number for pair in pairs for number in self._by_label.get(pair, ())]
        return [self._all[number] for number in sorted((*found, *self._others))]


class Index:
    """Index of an application's objects by kind, name and labels."""

    def __init__(self, manifests: Iterable[Manifest]) -> None:
        self._named: dict[tuple[str, str, str], Manifest] = {}
        self._in: dict[tuple[str, str], list[Manifest]] = defaultdict(list)
        self._bindings: dict[tuple[str, str], list[Manifest]] = defaultdict(list)
        self._routed: dict[tuple[str, str, str], list[Manifest]] = defaultdict(list)
        self._scaled: dict[tuple[str, str, str, str], list[Manifest]] = defaultdict(list)
        self._monitors: list[Manifest] = []
        self._selecting: dict[tuple[str, str], _Selecting] = defaultdict(_Selecting)
        """Services, NetworkPolicies and PodDisruptionBudgets by kind and namespace."""
        self._monitored: dict[Manifest, Sequence[Manifest]] = {}
        """Cache: Services with their ServiceMonitors."""
        self._sizes: dict[Manifest, int] = {}
        self._left = COMPARISONS
        for each in manifests:
            self._named.setdefault((each.kind, each.namespace, each.name), each)
            self._in[each.kind, each.namespace].append(each)
            if each.kind in _SELECTORS:
                self._selecting[each.kind, each.namespace].add(each)
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
        """Return an object by its name."""
        return self._named.get((kind, namespace, name))

    def all(self, kind: str, namespace: str) -> Sequence[Manifest]:
        """Return all objects of a kind in a namespace, in the order of the manifests."""
        return self._in.get((kind, namespace), ())

    def selecting(self, kind: str, workload: Manifest) -> Sequence[Manifest]:
        """Return objects of a kind that select a workload's pods, in the order of the manifests."""
        found = self._selecting.get((kind, workload.namespace))
        candidates = found.candidates(workload.pod_labels) if found is not None else ()
        self.spend(sum(map(self.size, candidates)))
        return [each for each in candidates if _selects(each, workload.pod_labels)]

    def bindings(self, kind: str, namespace: str, account: str) -> Iterator[Manifest]:
        """Return bindings of a kind for a service account."""
        return (each for each in self._bindings.get((namespace, account), ()) if each.kind == kind)

    def leading_to(self, kind: str, service: Manifest) -> Sequence[Manifest]:
        """Return Ingresses or Routes that route traffic to a Service."""
        return self._routed.get((kind, service.namespace, service.name), ())

    def monitors(self, service: Manifest) -> Sequence[Manifest]:
        """Return ServiceMonitors of a Service."""
        if (found := self._monitored.get(service)) is None:
            pairs = 1 + len(at(service.raw, "spec", "selector"))
            self.spend(sum(self.size(each) * pairs for each in self._monitors))
            found = self._monitored[service] = [each for each in self._monitors if _monitors(each, service)]
        return found

    def spend(self, comparisons: int) -> None:
        """Count steps of the search.

        :raises InvalidManifest: if the total exceeds COMPARISONS
        """
        self._left -= comparisons
        if self._left < 0:
            raise InvalidManifest(
                f"invalid manifest: spec.manifests: more than {COMPARISONS} comparisons are needed to find out which "
                "Services, policies and other objects belong to which workload: split the application, or give its "
                "workloads labels of their own and its objects shorter selectors"
            )

    def size(self, manifest: Manifest) -> int:
        """Return the number of terms and values in an object's selector, at least 1."""
        if (found := self._sizes.get(manifest)) is None:
            selector = at(manifest.raw, "spec", _SELECTORS.get(manifest.kind, "selector"))
            terms = objects(selector, "matchExpressions")
            found = 1 + len(selector) + len(at(selector, "matchLabels")) + len(terms)
            found = self._sizes[manifest] = found + sum(len(texts(each, "values")) for each in terms)
        return found

    def scaling(self, workload: Manifest) -> Sequence[Manifest]:
        """Return the autoscalers that change the number of a workload's pods."""
        version = text(workload.raw, "apiVersion")
        return self._scaled.get((version, workload.kind, workload.name, workload.namespace), ())


def _selects(each: Manifest, labels: Raw) -> bool:
    selector = at(each.raw, "spec").get(_SELECTORS[each.kind])
    if each.kind != "Service":
        return selects(selector, labels)
    # A Service without a selector selects nothing.
    return isinstance(selector, Mapping) and bool(selector) and selector.items() <= labels.items()


def _accounts(binding: Raw) -> Iterator[tuple[str, str]]:
    for subject in objects(binding, "subjects"):
        if subject.get("kind") == "ServiceAccount" and text(subject, "namespace"):
            yield text(subject, "namespace"), text(subject, "name")


def _backends(ingress: Raw) -> Iterator[str]:
    """Yield the Services that an Ingress routes traffic to."""
    if is_at(ingress, "spec", "defaultBackend", "service"):
        yield text(ingress, "spec", "defaultBackend", "service", "name")
    for rule in objects(ingress, "spec", "rules"):
        for path in objects(rule, "http", "paths"):
            yield text(path, "backend", "service", "name")


def _monitors(monitor: Manifest, service: Manifest) -> bool:
    """Return whether a ServiceMonitor matches a Service's labels (like Prometheus) or its selector (like P2CODE)."""
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
