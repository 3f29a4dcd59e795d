"""References of a pod: every field of a manifest that names a ConfigMap, Secret, claim or service account."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.api.kinds import CONFIGMAPS, PERSISTENT_VOLUME_CLAIMS, SECRETS, SERVICE_ACCOUNTS, Kind
from agent.model.errors import InvalidPod
from agent.model.proxypod import proxy_pod
from agent.model.references import LIMIT, check, own_and_added, references
from tests.model.pods import pod
from tests.model.podspecs import TOKEN, TOKEN_MOUNT

Raw = dict[str, Any]


def of(**spec: Any) -> dict[Kind, dict[str, bool]]:
    return references({"spec": {"containers": [{"name": "main"}], **spec}})


def env(**source: Raw) -> list[Raw]:
    return [{"name": "A", "valueFrom": source}]


IN_A_CONTAINER = [
    pytest.param(
        {"env": env(configMapKeyRef={"name": "x", "key": "k"})}, CONFIGMAPS, id="a variable from a config map"
    ),
    pytest.param({"env": env(secretKeyRef={"name": "x", "key": "k"})}, SECRETS, id="a variable from a secret"),
    pytest.param({"envFrom": [{"configMapRef": {"name": "x"}}]}, CONFIGMAPS, id="all variables of a config map"),
    pytest.param({"envFrom": [{"secretRef": {"name": "x"}, "prefix": "P"}]}, SECRETS, id="all variables of a secret"),
]


@pytest.mark.parametrize("field", ["containers", "initContainers", "ephemeralContainers"])
@pytest.mark.parametrize(("container", "kind"), IN_A_CONTAINER)
def test_what_containers_name_is_found(field: str, container: Raw, kind: Kind) -> None:
    assert of(**{field: [{"name": "c", **container}]}) == {kind: {"x": False}}


VOLUMES = [
    pytest.param({"configMap": {"name": "x"}}, CONFIGMAPS, id="a config map"),
    pytest.param({"secret": {"secretName": "x"}}, SECRETS, id="a secret"),
    pytest.param({"projected": {"sources": [{"configMap": {"name": "x"}}]}}, CONFIGMAPS, id="a projected config map"),
    pytest.param({"projected": {"sources": [{"secret": {"name": "x"}}]}}, SECRETS, id="a projected secret"),
    pytest.param({"persistentVolumeClaim": {"claimName": "x"}}, PERSISTENT_VOLUME_CLAIMS, id="a claim"),
    pytest.param({"csi": {"driver": "d", "nodePublishSecretRef": {"name": "x"}}}, SECRETS, id="the secret of a driver"),
    pytest.param({"azureFile": {"secretName": "x", "shareName": "s"}}, SECRETS, id="the secret of a file share"),
    *(
        pytest.param({system: {"secretRef": {"name": "x"}}}, SECRETS, id=f"the secret of {system}")
        for system in ("cephfs", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos")
    ),
]


@pytest.mark.parametrize(("volume", "kind"), VOLUMES)
def test_what_volumes_name_is_found(volume: Raw, kind: Kind) -> None:
    assert of(volumes=[{"name": "v", **volume}]) == {kind: {"x": False}}


def test_image_pull_secrets_and_the_service_account_are_found() -> None:
    found = of(imagePullSecrets=[{"name": "registry"}], serviceAccountName="builder")
    assert found == {SECRETS: {"registry": True}, SERVICE_ACCOUNTS: {"builder": False}}


def test_what_one_place_can_do_without_and_another_cannot_is_needed() -> None:
    volumes = [
        {"name": "a", "configMap": {"name": "both", "optional": True}},
        {"name": "b", "configMap": {"name": "spare", "optional": True}},
    ]
    containers = [{"name": "main", "envFrom": [{"configMapRef": {"name": "both"}}]}]
    assert of(volumes=volumes, containers=containers) == {CONFIGMAPS: {"both": False, "spare": True}}


def test_the_certificate_authority_of_the_cluster_is_not_among_it() -> None:
    assert of(volumes=[{"name": "v", "configMap": {"name": "kube-root-ca.crt"}}]) == {}


def test_what_lies_in_the_volume_of_the_token_is_not_among_it() -> None:
    """OpenShift adds a ConfigMap of its own next to kube-root-ca.crt."""
    sources = [{"configMap": {"name": "openshift-service-ca.crt"}}, {"serviceAccountToken": {"path": "token"}}]
    volumes = [{"name": TOKEN, "projected": {"sources": sources}}]
    mount = {"name": TOKEN, "mountPath": TOKEN_MOUNT}
    assert of(volumes=volumes, containers=[{"name": "c", "volumeMounts": [mount]}]) == {}
    elsewhere = {"name": TOKEN, "mountPath": "/ca"}
    found = of(volumes=volumes, containers=[{"name": "c", "volumeMounts": [mount, elsewhere]}])
    assert found == {CONFIGMAPS: {"openshift-service-ca.crt": False}}


def test_what_lies_in_a_volume_that_a_user_puts_where_the_token_would_be_is_among_it() -> None:
    sources = [{"configMap": {"name": "mine"}}, {"serviceAccountToken": {"path": "token"}}]
    volumes = [{"name": "by-hand", "projected": {"sources": sources}}, {"name": "keys", "secret": {"secretName": "k"}}]
    mounts = [{"name": each["name"], "mountPath": TOKEN_MOUNT} for each in volumes]
    containers = [{"name": f"c{number}", "volumeMounts": [mount]} for number, mount in enumerate(mounts)]
    assert of(volumes=volumes, containers=containers) == {CONFIGMAPS: {"mine": False}, SECRETS: {"k": False}}


def test_fields_that_are_null_name_nothing() -> None:
    assert of(volumes=None, initContainers=None, imagePullSecrets=None) == {}
    assert of(volumes=[{"name": "v", "configMap": None, "emptyDir": {}}]) == {}


def test_bytes_of_an_api_server_are_read_like_a_dict() -> None:
    given_pod = pod(spec={"imagePullSecrets": [{"name": "registry"}]})
    assert references(json.dumps(given_pod).encode()) == references(given_pod) != {}


_KEYS = st.sampled_from([(CONFIGMAPS, "configMapRef"), (SECRETS, "secretRef")])


@given(st.lists(st.tuples(_KEYS, st.sampled_from("abc"), st.booleans())))
def test_all_that_is_named_is_found_once_and_the_pod_stays_as_it_was(named: list[Any]) -> None:
    sources = [{field: {"name": name, "optional": optional}} for (_, field), name, optional in named]
    given_pod = {"spec": {"containers": [{"name": "main", "envFrom": sources}]}}
    before = copy.deepcopy(given_pod)
    want: dict[Kind, dict[str, bool]] = {}
    for (kind, _), name, optional in named:
        want.setdefault(kind, {}).setdefault(name, True)
        want[kind][name] &= optional
    assert references(given_pod) == want
    assert given_pod == before


def test_what_later_webhooks_added_to_a_proxy_pod_names_things_for_itself() -> None:
    def secret(name: str) -> Raw:
        return {"name": name, "secret": {"secretName": name}}

    def mounting(name: str, *volumes: str, **more: Any) -> Raw:
        return {"name": name, "volumeMounts": [{"name": each, "mountPath": f"/{each}"} for each in volumes], **more}

    proxy = copy.deepcopy(
        proxy_pod(pod(spec={"containers": [mounting("main", "own")], "volumes": [secret("own")]}), [])
    )
    spec = proxy["spec"]
    spec["containers"] = [
        mounting("main", "own", "shared"),
        mounting("mesh", "identity", "shared", envFrom=[{"configMapRef": {"name": "mesh"}}]),
    ]
    spec["initContainers"] = [mounting("mesh-init", "first", "own")]
    spec["volumes"] += [secret(name) for name in ("shared", "identity", "first")]
    own, added = own_and_added(json.dumps(proxy).encode())
    assert own == {SECRETS: {"own": False, "shared": False}, SERVICE_ACCOUNTS: {"default": False}}
    assert added == {SECRETS: {"identity": False, "first": False}, CONFIGMAPS: {"mesh": False}}
    for text in ("", "{}", '{"spec": {"containers": 5}}', "spec: {containers: []}", "[" * 5000):
        proxy["metadata"]["annotations"]["multicluster.admiralty.io/sourcepod-manifest"] = text
        assert own_and_added(json.dumps(proxy).encode()) == (references(proxy), {})


def test_a_pod_names_no_more_than_a_thousand_objects() -> None:
    def naming(count: int) -> dict[str, Any]:
        env_from = [{"configMapRef": {"name": f"c{index}"}} for index in range(count)]
        volumes = [{"name": "v", "secret": {"secretName": "s"}}]
        return {"spec": {"containers": [{"name": "main", "envFrom": env_from}], "volumes": volumes}}

    check(naming(LIMIT - 1))
    with pytest.raises(InvalidPod, match="it names 1001 ConfigMaps, Secrets and claims"):
        check(naming(LIMIT))
