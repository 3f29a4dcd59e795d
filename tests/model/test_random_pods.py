"""Every field of a pod arrives in its delegate unchanged, except for the fields that the contract lists."""

import asyncio
import copy
import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from agent.api.kinds import CHAPERONS, PODS, Kind
from agent.kube.client import Client
from agent.model.delegatepod import chaperon, delegate
from agent.model.livechanges import changes
from agent.model.manifest import source_pod
from agent.model.proxypod import proxy_pod
from tests.examples import examples
from tests.model.pods import UID, P
from tests.model.podspecs import TOKEN_MOUNT, admitted, pods

Raw = dict[str, Any]

ON_THE_PROXY = {
    "nodeSelector",
    "tolerations",
    "affinity",
    "topologySpreadConstraints",
    "schedulerName",
    "terminationGracePeriodSeconds",
}
ON_A_CLUSTER, AT_ONCE = 100, 8
"""Number of examples on a cluster and in parallel: fewer than in the pure test, since each needs five requests."""
_LABEL = re.compile(r"metadata\.labels\['(.*)'\]")


def moved(key: str) -> str:
    """Return a label's key in the target, if no regular expression of the pod keeps it."""
    return P + key.rpartition("/")[2]


def exact(key: str) -> str:
    """Return the key of the second label that a delegate has for each label."""
    prefix, _, name = key.rpartition("/")
    if prefix == "multicluster":
        return key  # random pods share parts, which would be rewritten twice
    return f"multicluster/{prefix or 'U'}_{name}"


def winners(labels: dict[str, str]) -> dict[str, str]:
    """Return the surviving labels: of labels with the same new key, one without a slash wins, else the
    alphabetically first."""
    found: dict[str, str] = {}
    for key in sorted(labels, key=lambda key: ("/" in key, key)):
        found.setdefault(moved(key), labels[key])
    return found


def expected(source: Raw, namespace: str) -> Raw:
    """Return the expected spec of the delegate, computed independently of the tested code."""
    spec: Raw = copy.deepcopy(source["spec"])
    spec.pop("priority", None)
    spec.setdefault("hostname", source["metadata"]["name"])
    containers = [*spec["containers"], *spec.get("initContainers", ())]
    tokens = set()
    for container in containers:
        mounts = container.get("volumeMounts", [])
        tokens |= {mount["name"] for mount in mounts if mount["mountPath"] == TOKEN_MOUNT}
        if mounts:
            container["volumeMounts"] = [mount for mount in mounts if mount["mountPath"] != TOKEN_MOUNT]
        for variable in container.get("env", ()):
            _resolve(variable, source, namespace)
    if "volumes" in spec:
        spec["volumes"] = [volume for volume in spec["volumes"] if volume["name"] not in tokens]
        for volume in spec["volumes"]:
            for item in volume.get("downwardAPI", {}).get("items", ()):
                reference = item["fieldRef"]
                reference["fieldPath"] = _LABEL.sub(
                    lambda m: f"metadata.labels['{exact(m[1])}']", reference["fieldPath"]
                )
    affinity = spec.get("affinity", {})
    terms = list(spec.get("topologySpreadConstraints", ()))
    for kind in ("podAffinity", "podAntiAffinity"):
        of = affinity.get(kind, {})
        terms += of.get("requiredDuringSchedulingIgnoredDuringExecution", [])
        preferred = of.get("preferredDuringSchedulingIgnoredDuringExecution", ())
        terms += [each["podAffinityTerm"] for each in preferred]
    for term in terms:
        selector = term.get("labelSelector", {})
        if "matchLabels" in selector:
            selector["matchLabels"] = {exact(key): value for key, value in selector["matchLabels"].items()}
        for expression in selector.get("matchExpressions", ()):
            expression["key"] = exact(expression["key"])
    return spec


def _resolve(variable: Raw, source: Raw, namespace: str) -> None:
    path = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
    known = {"metadata.name": source["metadata"]["name"], "metadata.namespace": namespace}
    known["metadata.labels['app']"] = source["metadata"]["labels"]["app"]
    if path in known:
        del variable["valueFrom"]
        variable["value"] = known[path].replace("$", "$$")


def plain(spec: Raw) -> Raw:
    """Return a spec without empty lists and objects: an empty field means the same as an absent one."""
    result = copy.deepcopy(spec)
    for container in (*result["containers"], *result.get("initContainers", ())):
        if not container.get("volumeMounts"):
            container.pop("volumeMounts", None)
    if not result.get("volumes"):
        result.pop("volumes", None)
    return result


@pytest.mark.timeout(400)
@settings(
    max_examples=examples(1000), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(pods())
def test_a_pod_arrives_as_it_was_written_but_for_what_the_contract_lists(pod: Raw) -> None:
    source = admitted(pod)
    source["metadata"]["namespace"] = "default"
    before = copy.deepcopy(source)
    proxy = proxy_pod(source, [P + "default-t"])
    assert source == before, "the pod itself was changed"
    changed = {key for key in {*source["spec"], *proxy["spec"]} if source["spec"].get(key) != proxy["spec"].get(key)}
    assert changed <= ON_THE_PROXY
    proxy["metadata"]["uid"] = UID
    made = chaperon(proxy, cluster_name="c", cluster_uid="k")
    child = delegate({**made, "metadata": {**made["metadata"], "uid": "CU"}})
    assert changes(proxy, source_pod(proxy), made) == {}
    assert plain(made["spec"]) == plain(expected(source, "default"))
    assert child["spec"] == made["spec"]
    metadata = child["metadata"]
    own = {P + "parent-uid": UID, P + "parent-cluster-name": "c", "multicluster/parent-cluster-uid": "k"}
    own |= {"multicluster/serving": "true"} | {exact(key): value for key, value in source["metadata"]["labels"].items()}
    assert metadata["labels"] == winners(source["metadata"]["labels"]) | own
    assert metadata["annotations"] == {
        **{key: value for key, value in source["metadata"]["annotations"].items() if key != P + "elect"},
        P + "parent-name": source["metadata"]["name"],
        P + "parent-namespace": "default",
    }


def some_pods(count: int) -> list[Raw]:
    """Return this many different random pods."""
    found: list[Raw] = []

    @settings(max_examples=count, database=None, derandomize=True, phases=[Phase.generate], deadline=None)
    @given(pods())
    def collect(pod: Raw) -> None:
        found.append(pod)

    collect()
    return found


async def dry_run(client: Client, kind: Kind, obj: Raw, namespace: str) -> Raw:
    """Return the object that an API server would store."""
    path, body = kind.path(namespace), json.dumps(obj).encode()
    answer: Raw = json.loads(await client.session.request("POST", path, params={"dryRun": "All"}, body=body))
    return answer


def without_token(spec: Raw) -> Raw:
    """Return a spec without the token that the API server's own admission adds, under a random name."""
    containers = [*spec["containers"], *spec.get("initContainers", ())]
    mounts = [mount for container in containers for mount in container.get("volumeMounts", ())]
    tokens = {mount["name"] for mount in mounts if mount["mountPath"] == TOKEN_MOUNT}
    for container in containers:
        kept = [mount for mount in container.get("volumeMounts", ()) if mount["name"] not in tokens]
        container["volumeMounts"] = kept
    spec["volumes"] = [volume for volume in spec.get("volumes", ()) if volume["name"] not in tokens]
    return plain(spec)


@pytest.mark.cluster
async def test_api_servers_take_what_is_made_of_any_pod(client: Client, namespace: str) -> None:
    waiting = some_pods(ON_A_CLUSTER)

    async def work() -> None:
        while waiting:
            await arrives(client, namespace, waiting.pop())

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())


async def arrives(client: Client, namespace: str, pod: Raw) -> None:
    """Check that the source stores one pod, its chaperon and its delegate as expected."""
    source = await dry_run(client, PODS, pod, namespace)
    wanted = await dry_run(client, PODS, {**pod, "spec": expected(pod, namespace)}, namespace)
    for field in ("uid", "creationTimestamp", "generation", "managedFields"):
        source["metadata"].pop(field, None)
    proxy = await dry_run(client, PODS, proxy_pod(source, [P + "default-t"]), namespace)
    made = chaperon(proxy, cluster_name="c", cluster_uid="k")
    parent = await dry_run(client, CHAPERONS, made, namespace)
    assert parent["spec"] == made["spec"], "the chaperon lost a field"
    child = await dry_run(client, PODS, delegate(parent), namespace)
    assert without_token(child["spec"]) == without_token(wanted["spec"])
