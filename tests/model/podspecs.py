"""Random pods that every API server accepts, as hypothesis strategies."""

from typing import Any

from hypothesis import strategies as st

from tests.model.pods import P

Raw = dict[str, Any]

TOKEN_MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN = "kube-api-access-q9"
FIELDS = ("metadata.name", "metadata.namespace", "metadata.labels['app']", "spec.nodeName", "status.podIP")

_DNS = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
_VALUE = st.from_regex(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,8}[A-Za-z0-9])?)?", fullmatch=True)
_TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FFF, exclude_categories=("Cs", "Cn")), max_size=12)
_KEY = st.one_of(_DNS, st.builds("{}.io/{}".format, _DNS, _DNS))
_LABELS = st.dictionaries(_KEY, _VALUE, max_size=4)
_EFFECT = st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])
_TOPOLOGY = st.sampled_from(["kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack"])


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Raw]:
    """Strategy for objects with any of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


def _unique(of: st.SearchStrategy[Any], key: str, *, at_least: int = 1, at_most: int = 2) -> st.SearchStrategy[Any]:
    return st.lists(of, unique_by=lambda each: each[key], min_size=at_least, max_size=at_most)


_EXPRESSION = st.one_of(
    st.builds(lambda key: {"key": key, "operator": "Exists"}, _KEY),
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        _KEY,
        st.sampled_from(["In", "NotIn"]),
        st.lists(_VALUE, min_size=1, max_size=3, unique=True),
    ),
)
_SELECTOR = optional(
    matchLabels=st.dictionaries(_KEY, _VALUE, min_size=1, max_size=2),
    matchExpressions=st.lists(_EXPRESSION, min_size=1, max_size=2),
)
_TERM = st.fixed_dictionaries({"labelSelector": _SELECTOR, "topologyKey": _TOPOLOGY})
_POD_AFFINITY = optional(
    requiredDuringSchedulingIgnoredDuringExecution=st.lists(_TERM, min_size=1, max_size=2),
    preferredDuringSchedulingIgnoredDuringExecution=st.lists(
        st.fixed_dictionaries({"weight": st.integers(1, 100), "podAffinityTerm": _TERM}), min_size=1, max_size=2
    ),
)
_NODE_TERM = st.fixed_dictionaries({"matchExpressions": st.lists(_EXPRESSION, min_size=1, max_size=2)})
_AFFINITY = optional(
    nodeAffinity=optional(
        requiredDuringSchedulingIgnoredDuringExecution=st.fixed_dictionaries(
            {"nodeSelectorTerms": st.lists(_NODE_TERM, min_size=1, max_size=2)}
        ),
        preferredDuringSchedulingIgnoredDuringExecution=st.lists(
            st.fixed_dictionaries({"weight": st.integers(1, 100), "preference": _NODE_TERM}), min_size=1, max_size=2
        ),
    ),
    podAffinity=_POD_AFFINITY,
    podAntiAffinity=_POD_AFFINITY,
)
_SPREAD = _unique(
    st.fixed_dictionaries(
        {
            "maxSkew": st.integers(1, 5),
            "topologyKey": _TOPOLOGY,
            "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": _SELECTOR,
        }
    ),
    "topologyKey",
    at_least=0,
)
_TOLERATION = st.one_of(
    st.builds(lambda key, effect: {"key": key, "operator": "Exists", "effect": effect}, _KEY, _EFFECT),
    st.builds(lambda key, value: {"key": key, "operator": "Equal", "value": value}, _KEY, _VALUE),
    st.builds(
        lambda key, seconds: {
            "key": key,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": seconds,
        },
        _KEY,
        st.integers(0, 999),
    ),
)
_ENV = st.one_of(
    st.builds(lambda name, value: {"name": name.upper().replace("-", "_"), "value": value}, _DNS, _TEXT),
    st.builds(
        lambda name, path: {
            "name": name.upper().replace("-", "_"),
            "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}},
        },
        _DNS,
        st.sampled_from(FIELDS),
    ),
    st.builds(
        lambda name, of: {
            "name": name.upper().replace("-", "_"),
            "valueFrom": {"secretKeyRef": {"name": of, "key": "k", "optional": True}},
        },
        _DNS,
        _DNS,
    ),
)
_QUANTITIES = st.builds(
    lambda cpu, memory: {
        "requests": {"cpu": f"{cpu}m", "memory": f"{memory}Mi"},
        "limits": {"cpu": f"{2 * cpu}m", "memory": f"{2 * memory}Mi"},
    },
    st.integers(1, 50),
    st.integers(1, 64),
)
_PROBE = st.builds(
    lambda handler, period: {**handler, "periodSeconds": period},
    st.sampled_from(
        [
            {"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}},
            {"exec": {"command": ["true"]}},
            {"tcpSocket": {"port": 80}},
        ]
    ),
    st.integers(1, 60),
)
_CONTAINER: dict[str, st.SearchStrategy[Any]] = {
    "command": st.lists(_TEXT, min_size=1, max_size=2),
    "args": st.lists(_TEXT, min_size=1, max_size=2),
    "env": _unique(_ENV, "name", at_most=3),
    "resources": _QUANTITIES,
    "imagePullPolicy": st.sampled_from(["Always", "IfNotPresent", "Never"]),
    "securityContext": optional(runAsUser=st.integers(1, 9999), readOnlyRootFilesystem=st.booleans()),
    "terminationMessagePolicy": st.sampled_from(["File", "FallbackToLogsOnError"]),
    "workingDir": st.just("/work"),
}
_VOLUME = st.one_of(
    st.just({"emptyDir": {"sizeLimit": "1Mi"}}),
    st.builds(lambda name: {"configMap": {"name": name, "optional": True}}, _DNS),
    st.builds(lambda name: {"secret": {"secretName": name, "optional": True}}, _DNS),
    st.builds(lambda name: {"persistentVolumeClaim": {"claimName": name}}, _DNS),
    st.just({"downwardAPI": {"items": [{"path": "app", "fieldRef": {"fieldPath": "metadata.labels['app']"}}]}}),
)
_POD: dict[str, st.SearchStrategy[Any]] = {
    "nodeSelector": st.dictionaries(_KEY, _VALUE, min_size=1, max_size=2),
    "tolerations": st.lists(_TOLERATION, min_size=1, max_size=3),
    "affinity": _AFFINITY,
    "topologySpreadConstraints": _SPREAD,
    "terminationGracePeriodSeconds": st.integers(10, 600),
    "restartPolicy": st.sampled_from(["Always", "OnFailure", "Never"]),
    "dnsPolicy": st.sampled_from(["ClusterFirst", "Default"]),
    "hostname": _DNS,
    "subdomain": _DNS,
    "enableServiceLinks": st.booleans(),
    "shareProcessNamespace": st.booleans(),
    "automountServiceAccountToken": st.booleans(),
    "imagePullSecrets": _unique(st.builds(lambda name: {"name": name}, _DNS), "name"),
    "hostAliases": st.just([{"ip": "192.0.2.1", "hostnames": ["db"]}]),
    "dnsConfig": st.just({"options": [{"name": "ndots", "value": "2"}]}),
    "securityContext": optional(fsGroup=st.integers(1, 9999), runAsNonRoot=st.just(True)),
    "activeDeadlineSeconds": st.integers(1, 99999),
    "setHostnameAsFQDN": st.just(False),
}


@st.composite
def pods(draw: st.DrawFn) -> Raw:
    """Strategy for elected pods as users write them, with or without the service account token's volume."""
    spec = draw(optional(**_POD))
    names = draw(st.lists(_DNS, min_size=1, max_size=4, unique=True))
    ordinary = draw(st.integers(1, len(names)))
    volumes = [
        {"name": f"v{index}"} | volume for index, volume in enumerate(draw(st.lists(_VOLUME, min_size=0, max_size=3)))
    ]
    containers = [_container(draw, name, volumes) for name in names]
    for container in containers[:ordinary]:
        container |= draw(optional(livenessProbe=_PROBE, readinessProbe=_PROBE))
    spec["containers"] = containers[:ordinary]
    if containers[ordinary:]:
        spec["initContainers"] = containers[ordinary:]
    if volumes:
        spec["volumes"] = volumes
    annotations = draw(st.dictionaries(_KEY, _TEXT, max_size=3))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": draw(_DNS),
            "labels": {"app": "web", **draw(_LABELS)},
            "annotations": annotations | {P + "elect": ""},
        },
        "spec": spec,
    }


def _container(draw: st.DrawFn, name: str, volumes: list[Raw]) -> Raw:
    container: Raw = {"name": name, "image": draw(st.sampled_from(["busybox", "busybox:2"]))}
    container |= draw(optional(**_CONTAINER))
    mounted = [volume["name"] for volume in volumes if draw(st.booleans())]
    if mounted:
        container["volumeMounts"] = [{"name": each, "mountPath": f"/mnt/{each}"} for each in mounted]
    return container


def admitted(pod: Raw) -> Raw:
    """Return the pod with the fields that admission adds before webhooks: priority, service account and its token."""
    spec = pod["spec"]
    mount = {"name": TOKEN, "readOnly": True, "mountPath": TOKEN_MOUNT}
    lists = {
        field: [{**container, "volumeMounts": [*container.get("volumeMounts", ()), mount]} for container in spec[field]]
        for field in ("containers", "initContainers")
        if field in spec
    }
    token = {"name": TOKEN, "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    added = {"volumes": [*spec.get("volumes", ()), token], "priority": 0, "serviceAccountName": "default"}
    return {**pod, "spec": {**spec, **lists, **added}}
