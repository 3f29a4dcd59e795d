"""Objects of the maximum size of API servers, one row for each user-controlled field that Flotilla iterates
over.

A row is the name of a field and a function from an item's number to the item; the list or map has as many items
as the size allows. To add a field, add a row.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from agent.api import names
from agent.api.kinds import (
    CONFIGMAPS,
    ENDPOINT_SLICES,
    GATEWAY_PEERS,
    INGRESSES,
    NETWORK_POLICIES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_LINKS,
    SERVICES,
    SOURCES,
    TARGETS,
    Kind,
)
from agent.api.names.p2code import FILTER

Raw = dict[str, Any]
Build = Callable[[str, str], Raw]
"""Namespace and name -> object."""

OBJECT_BYTES = 1_400_000
"""Bytes of JSON of an object without its head: etcd accepts requests of 1.5 MiB."""
ANNOTATION_BYTES = 250_000
"""Kubernetes allows 262,144 bytes for all annotations of an object."""

_SHORT_MANIFEST = '{"metadata":{},"spec":{"containers":[{"name":"main"}]}}'
"""Valid manifest that leaves the annotations' space to the row."""
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def many(item: Callable[[int], Any], size: int = OBJECT_BYTES) -> list[Any]:
    """Return as many items as fit into `size` bytes of JSON."""
    found: list[Any] = []
    while size > 0:
        found.append(item(len(found)))
        size -= len(msgspec.json.encode(found[-1])) + 1
    return found


def pairs(key: Callable[[int], str], value: Callable[[int], str], size: int = OBJECT_BYTES) -> dict[str, str]:
    """Return as many keys with values as fit into `size` bytes of JSON."""
    return dict(many(lambda index: (key(index), value(index)), size))


def pod(namespace: str, name: str, *, annotations: Raw | None = None, labels: Raw | None = None, **spec: Any) -> Raw:
    """Return an elected pod as its user sends it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app": name, **(labels or {})},
            "annotations": {
                names.PREFIX + names.ELECT: "",
                names.ANNOTATION_MANIFEST: _SHORT_MANIFEST,
                # Containers and volumes are copied although the manifest does not name them.
                names.SHORT_PREFIX + names.INJECTED: names.INJECTED_FOLLOW,
                **(annotations or {}),
            },
        },
        "spec": {"containers": [{"name": "main", "image": "busybox"}], **spec},
    }


def _main(**fields: Any) -> list[Raw]:
    return [{"name": "main", "image": "busybox", **fields}]


def _names_annotation(index: int, key: str = "b") -> Raw:
    return {"name": f"V{index}", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{key}']"}}}


def _label(index: int) -> str:
    return f"example.com/label-{index}"


def _term(index: int) -> Raw:
    return {"labelSelector": {"matchLabels": {_label(index): "x"}}, "topologyKey": "kubernetes.io/hostname"}


def _requirement(index: int) -> Raw:
    return {"key": _label(index), "operator": "NotIn", "values": ["a", "b"]}


def _with_pods_terms(kind: str, strength: str) -> Build:
    def build(namespace: str, name: str) -> Raw:
        terms = many(
            lambda index: {"weight": 1, "podAffinityTerm": _term(index)} if strength == _PREFERRED else _term(index)
        )
        return pod(namespace, name, affinity={kind: {strength: terms}})

    return build


def _pattern(text: str) -> Raw:
    return {names.SHORT_PREFIX + names.NO_PREFIX_REGEXP: text}


SLOW_PATTERN = "(?:" + "|".join(f".{{{index}}}x" for index in range(20)) + ")q"
QUICK_PATTERN = "^example"

PODS: dict[str, Build] = {
    "labels": lambda ns, name: pod(ns, name, labels=pairs(_label, lambda _: "x" * 63)),
    "labels and a slow pattern": lambda ns, name: pod(
        ns, name, annotations=_pattern(SLOW_PATTERN), labels=pairs(_label, lambda _: "x" * 63)
    ),
    "labels and a quick pattern": lambda ns, name: pod(
        ns, name, annotations=_pattern(QUICK_PATTERN), labels=pairs(_label, lambda _: "x" * 63)
    ),
    "annotations": lambda ns, name: pod(ns, name, annotations=pairs(_label, lambda _: "x", ANNOTATION_BYTES)),
    "one annotation": lambda ns, name: pod(ns, name, annotations={"b": "x" * ANNOTATION_BYTES}),
    "own annotations": lambda ns, name: pod(
        ns, name, annotations=pairs(lambda index: f"multicluster/note-{index}", lambda _: "x", ANNOTATION_BYTES)
    ),
    "claims that are asked for": lambda ns, name: pod(
        ns, name, annotations=pairs(lambda index: f"{FILTER}.f{index}", lambda _: "x", ANNOTATION_BYTES)
    ),
    "targets that are named": lambda ns, name: pod(
        ns, name, annotations={"multicluster/targets": ",".join(many(lambda index: f"t{index}", ANNOTATION_BYTES))}
    ),
    "manifest of nested lists": lambda ns, name: pod(
        ns, name, annotations={names.ANNOTATION_MANIFEST: _manifest(x=[[]] * (ANNOTATION_BYTES // 3))}
    ),
    "manifest of containers": lambda ns, name: pod(
        ns,
        name,
        annotations={
            names.ANNOTATION_MANIFEST: _manifest(
                initContainers=many(lambda index: {"name": f"c{index}"}, ANNOTATION_BYTES - 1000)
            )
        },
    ),
    "manifest of tolerations": lambda ns, name: pod(
        ns,
        name,
        annotations={
            names.ANNOTATION_MANIFEST: _manifest(
                tolerations=many(lambda index: {"key": f"k{index}", "operator": "Exists"}, ANNOTATION_BYTES - 1000)
            )
        },
    ),
    "manifest in YAML": lambda ns, name: pod(
        ns,
        name,
        annotations={
            names.ANNOTATION_MANIFEST: "spec:\n  containers:\n  - name: main\n    args:\n"
            + "    - a\n" * (64 * 1024 // 8 - 10)
        },
    ),
    "constraints in YAML": lambda ns, name: pod(
        ns,
        name,
        annotations={
            names.PREFIX + names.PROXY_CONSTRAINTS: "tolerations:\n"
            + "".join(many(lambda index: f"- {{key: k{index}, operator: Exists}}\n", 60 * 1024))
        },
    ),
    "env": lambda ns, name: pod(
        ns, name, containers=_main(env=many(lambda index: {"name": f"V{index}", "value": "http://a.b:80/c"}))
    ),
    "env, one value": lambda ns, name: pod(
        ns, name, containers=_main(env=[{"name": "HOSTS", "value": "http://a.b:80, " * (OBJECT_BYTES // 15)}])
    ),
    "env of an annotation": lambda ns, name: pod(
        ns, name, annotations={"b": "x" * 60_000}, containers=_main(env=many(_names_annotation, 1_200_000))
    ),
    "env of an own annotation": lambda ns, name: pod(
        ns,
        name,
        annotations={"multicluster/b": "x" * 60_000},
        containers=_main(env=many(lambda index: _names_annotation(index, "multicluster/b"), 1_200_000)),
    ),
    "env of the name": lambda ns, name: pod(
        ns,
        name,
        containers=_main(
            env=many(lambda index: {"name": f"V{index}", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})
        ),
    ),
    "envFrom": lambda ns, name: pod(
        ns,
        name,
        containers=_main(envFrom=many(lambda index: {"configMapRef": {"name": f"config-{index}", "optional": True}})),
    ),
    "args": lambda ns, name: pod(ns, name, containers=_main(args=many(lambda index: f"--peer=a{index}.b:80"))),
    "one argument": lambda ns, name: pod(ns, name, containers=_main(args=["a=" + "," * OBJECT_BYTES])),
    "ports": lambda ns, name: pod(
        ns,
        name,
        containers=_main(ports=many(lambda index: {"containerPort": index % 60_000 + 1, "name": f"p{index}"})),
    ),
    "volume mounts": lambda ns, name: pod(
        ns,
        name,
        containers=_main(volumeMounts=many(lambda index: {"name": "d", "mountPath": f"/{index}"})),
        volumes=[{"name": "d", "emptyDir": {}}],
    ),
    "mounts of the token": lambda ns, name: pod(
        ns,
        name,
        annotations=_pattern(QUICK_PATTERN),
        containers=_main(
            volumeMounts=many(lambda index: {"name": f"t{index}", "mountPath": names.SERVICE_ACCOUNT_MOUNT})
        ),
        volumes=[{"name": "t0", "emptyDir": {}}],
    ),
    "volumes of ConfigMaps": lambda ns, name: pod(
        ns,
        name,
        volumes=many(lambda index: {"name": f"v{index}", "configMap": {"name": f"c{index}", "optional": True}}),
    ),
    "volumes of claims": lambda ns, name: pod(
        ns,
        name,
        volumes=many(lambda index: {"name": f"v{index}", "persistentVolumeClaim": {"claimName": f"c{index}"}}),
    ),
    "files of labels": lambda ns, name: pod(
        ns,
        name,
        annotations=_pattern(SLOW_PATTERN),
        volumes=[
            {
                "name": "d",
                "downwardAPI": {
                    "items": many(
                        lambda index: {
                            "path": f"{index}",
                            "fieldRef": {"fieldPath": f"metadata.labels['{_label(index)}']"},
                        }
                    )
                },
            }
        ],
    ),
    "init containers": lambda ns, name: pod(
        ns, name, initContainers=many(lambda index: {"name": f"i{index}", "image": "busybox"})
    ),
    "containers": lambda ns, name: pod(
        ns, name, containers=many(lambda index: {"name": f"c{index}" if index else "main", "image": "busybox"})
    ),
    "containers with requests": lambda ns, name: pod(
        ns,
        name,
        containers=many(
            lambda index: {
                "name": f"c{index}" if index else "main",
                "image": "busybox",
                "resources": {
                    "requests": {"cpu": "1m", f"example.com/r{index}": "1"},
                    "limits": {f"example.com/r{index}": "1"},
                },
            }
        ),
    ),
    "tolerations": lambda ns, name: pod(
        ns, name, tolerations=many(lambda index: {"key": f"k{index}", "operator": "Exists"})
    ),
    "node selector": lambda ns, name: pod(ns, name, nodeSelector=pairs(_label, lambda _: "x")),
    "node affinity": lambda ns, name: pod(
        ns,
        name,
        affinity={
            "nodeAffinity": {
                _REQUIRED: {"nodeSelectorTerms": many(lambda index: {"matchExpressions": [_requirement(index)]})}
            }
        },
    ),
    "values of one requirement": lambda ns, name: pod(
        ns,
        name,
        affinity={
            "nodeAffinity": {
                _REQUIRED: {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "a", "operator": "NotIn", "values": many(lambda index: f"v{index}")}
                            ]
                        }
                    ]
                }
            }
        },
    ),
    "pod affinity, required": _with_pods_terms("podAffinity", _REQUIRED),
    "pod affinity, preferred": _with_pods_terms("podAffinity", _PREFERRED),
    "pod anti-affinity, required": _with_pods_terms("podAntiAffinity", _REQUIRED),
    "pod anti-affinity, preferred": _with_pods_terms("podAntiAffinity", _PREFERRED),
    "topology spread": lambda ns, name: pod(
        ns,
        name,
        topologySpreadConstraints=many(
            lambda index: {
                **_term(index),
                "topologyKey": f"example.com/zone-{index}",
                "maxSkew": 1,
                "whenUnsatisfiable": "ScheduleAnyway",
            }
        ),
    ),
    "readiness gates": lambda ns, name: pod(
        ns, name, readinessGates=many(lambda index: {"conditionType": f"example.com/gate-{index}"})
    ),
    "scheduling gates": lambda ns, name: pod(
        ns, name, schedulingGates=many(lambda index: {"name": f"example.com/gate-{index}"})
    ),
    "image pull secrets": lambda ns, name: pod(ns, name, imagePullSecrets=many(lambda index: {"name": f"s{index}"})),
    "host aliases": lambda ns, name: pod(
        ns, name, hostAliases=many(lambda index: {"ip": "192.0.2.1", "hostnames": [f"h{index}.example.com"]})
    ),
    "resource claims": lambda ns, name: pod(
        ns, name, resourceClaims=many(lambda index: {"name": f"r{index}", "resourceClaimName": f"c{index}"})
    ),
    "owner references": lambda ns, name: {
        **pod(ns, name),
        "metadata": {
            **pod(ns, name)["metadata"],
            "ownerReferences": many(
                lambda index: {"apiVersion": "v1", "kind": "ConfigMap", "name": f"c{index}", "uid": f"u{index}"}
            ),
        },
    },
    "finalizers": lambda ns, name: {
        **pod(ns, name),
        "metadata": {**pod(ns, name)["metadata"], "finalizers": many(lambda index: f"example.com/f{index}")},
    },
}


def _manifest(**spec: Any) -> str:
    return msgspec.json.encode({"metadata": {}, "spec": {"containers": [{"name": "main"}], **spec}}).decode()


COMPANION = "app"
"""Name and label `app` of an ordinary elected pod that Services, rules and followed objects select."""


def companion(namespace: str, mounts: list[tuple[str, str]]) -> Raw:
    """Return an ordinary elected pod that names ConfigMaps and Secrets: (kind, name) of each."""
    sources = {"ConfigMap": ("configMap", "name"), "Secret": ("secret", "secretName")}
    volumes = [
        {"name": f"v{index}", sources[kind][0]: {sources[kind][1]: name, "optional": True}}
        for index, (kind, name) in enumerate(mounts)
    ]
    made = pod(namespace, COMPANION, volumes=volumes)
    del made["metadata"]["annotations"][names.ANNOTATION_MANIFEST]
    return made


def _object(kind: Kind, namespace: str, name: str, **fields: Any) -> Raw:
    metadata = {"name": name, "namespace": namespace, **fields.pop("metadata", {})}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, **fields}


def _service(namespace: str, name: str, annotations: Raw | None = None, **spec: Any) -> Raw:
    spec = {"selector": {"app": COMPANION}, "ports": [{"name": "http", "port": 80}], **spec}
    return _object(SERVICES, namespace, name, metadata={"annotations": annotations or {}}, spec=spec)


def _policy(namespace: str, name: str, annotations: Raw | None = None, **spec: Any) -> Raw:
    spec = {"podSelector": {"matchLabels": {"app": COMPANION}}, **spec}
    return _object(NETWORK_POLICIES, namespace, name, metadata={"annotations": annotations or {}}, spec=spec)


def _ingress(namespace: str, name: str, **spec: Any) -> Raw:
    return _object(INGRESSES, namespace, name, metadata={"annotations": {names.ANNOTATION_GLOBAL: "true"}}, spec=spec)


def _path(index: int) -> Raw:
    backend = {"service": {"name": f"s{index}", "port": {"number": 80}}}
    return {"path": f"/{index}", "pathType": "Prefix", "backend": backend}


OTHERS: dict[str, tuple[Kind, Build]] = {
    "Service: selector": (SERVICES, lambda ns, name: _service(ns, name, selector=pairs(_label, lambda _: "x" * 63))),
    "Service: selector and a slow pattern": (
        SERVICES,
        lambda ns, name: _service(ns, name, _pattern(SLOW_PATTERN), selector=pairs(_label, lambda _: "x" * 63)),
    ),
    "Service: original selector and a slow pattern": (
        SERVICES,
        lambda ns, name: _service(
            ns,
            name,
            {
                **_pattern(SLOW_PATTERN),
                names.ANNOTATION_ORIGINAL_SELECTOR: ",".join(
                    many(lambda index: f"l{index}={'x' * 60}", ANNOTATION_BYTES)
                ),
            },
        ),
    ),
    "Service: original selector and a quick pattern": (
        SERVICES,
        lambda ns, name: _service(
            ns,
            name,
            {
                **_pattern("x"),
                names.ANNOTATION_ORIGINAL_SELECTOR: ",".join(many(lambda index: f"l{index}=x", ANNOTATION_BYTES)),
            },
        ),
    ),
    "Service: annotations": (
        SERVICES,
        lambda ns, name: _service(ns, name, pairs(_label, lambda _: "x", ANNOTATION_BYTES)),
    ),
    "Service: ports": (
        SERVICES,
        lambda ns, name: _service(
            ns, name, ports=many(lambda index: {"name": f"p{index}", "port": index + 1}, 400_000)
        ),
    ),
    "Service: external addresses": (
        SERVICES,
        lambda ns, name: _service(
            ns, name, externalIPs=many(lambda index: f"198.{index >> 16}.{index >> 8 & 255}.{index & 255}")
        ),
    ),
    "ConfigMap: keys": (
        CONFIGMAPS,
        lambda ns, name: _object(CONFIGMAPS, ns, name, data=pairs(lambda i: f"k{i}", str, 1_000_000)),
    ),
    "ConfigMap: one value": (CONFIGMAPS, lambda ns, name: _object(CONFIGMAPS, ns, name, data={"k": "x" * 1_000_000})),
    "Secret: keys": (
        SECRETS,
        lambda ns, name: _object(SECRETS, ns, name, stringData=pairs(lambda i: f"k{i}", str, 700_000)),
    ),
    "NetworkPolicy: peers": (
        NETWORK_POLICIES,
        lambda ns, name: _policy(
            ns, name, ingress=[{"from": many(lambda index: {"podSelector": {"matchLabels": {_label(index): "x"}}})}]
        ),
    ),
    "NetworkPolicy: peers and a slow pattern": (
        NETWORK_POLICIES,
        lambda ns, name: _policy(
            ns,
            name,
            _pattern(SLOW_PATTERN),
            ingress=[{"from": many(lambda index: {"podSelector": {"matchLabels": {_label(index): "x"}}})}],
        ),
    ),
    "NetworkPolicy: rules": (
        NETWORK_POLICIES,
        lambda ns, name: _policy(ns, name, ingress=many(lambda index: {"ports": [{"port": index % 60_000 + 1}]})),
    ),
    "NetworkPolicy: pod selector": (
        NETWORK_POLICIES,
        lambda ns, name: _policy(ns, name, podSelector={"matchExpressions": many(_requirement)}),
    ),
    "Ingress: rules": (
        INGRESSES,
        lambda ns, name: _ingress(
            ns, name, rules=many(lambda index: {"host": f"h{index}.example.com", "http": {"paths": [_path(index)]}})
        ),
    ),
    "Ingress: paths": (INGRESSES, lambda ns, name: _ingress(ns, name, rules=[{"http": {"paths": many(_path)}}])),
    "Ingress: certificates": (
        INGRESSES,
        lambda ns, name: _ingress(
            ns,
            name,
            rules=[{"http": {"paths": [_path(0)]}}],
            tls=many(lambda index: {"hosts": [f"h{index}.example.com"], "secretName": f"s{index}"}),
        ),
    ),
    "Role: rules": (
        ROLES,
        lambda ns, name: _object(
            ROLES,
            ns,
            name,
            rules=many(lambda index: {"apiGroups": [""], "resources": [f"r{index}"], "verbs": ["get"]}),
        ),
    ),
    "RoleBinding: subjects": (
        ROLE_BINDINGS,
        lambda ns, name: _object(
            ROLE_BINDINGS,
            ns,
            name,
            roleRef={"apiGroup": ROLES.group, "kind": "Role", "name": "none"},
            subjects=many(lambda index: {"kind": "ServiceAccount", "name": f"a{index}", "namespace": ns}),
        ),
    ),
    "EndpointSlice: endpoints": (
        ENDPOINT_SLICES,
        lambda ns, name: _object(
            ENDPOINT_SLICES,
            ns,
            name,
            metadata={"labels": {"kubernetes.io/service-name": "web"}},
            addressType="IPv4",
            endpoints=[{"addresses": [f"10.9.{index >> 8}.{index & 255}"]} for index in range(1000)],
            ports=[{"name": f"p{index}", "port": index + 1} for index in range(100)],
        ),
    ),
    "ServiceLink: clusters": (
        SERVICE_LINKS,
        lambda ns, name: _object(
            SERVICE_LINKS, ns, name, spec={"service": "web", "from": [f"c{index}" for index in range(100)]}
        ),
    ),
    "GatewayPeer: services": (
        GATEWAY_PEERS,
        lambda ns, name: _object(
            GATEWAY_PEERS,
            ns,
            name,
            spec={
                "uid": "u",
                "ca": "none",
                # API servers compare each with each.
                "services": many(lambda index: {"name": f"s{index}", "ports": [{"port": 80}]}, 15_000),
            },
        ),
    ),
    "Target: annotations and limits": (
        TARGETS,
        lambda ns, name: _object(
            TARGETS,
            ns,
            name,
            spec={
                "kubeconfigSecret": {"name": "none"},
                "limits": pairs(lambda index: f"example.com/r{index}", lambda _: "1"),
            },
        ),
    ),
    "Source: pod ranges": (
        SOURCES,
        lambda ns, name: _object(SOURCES, ns, name, spec={"serviceAccountName": name, "userName": "x" * 100_000}),
    ),
}
