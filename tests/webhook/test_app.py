"""Behaviour for users: pods created through a real API server that calls a real webhook."""

import pytest

from agent.api import names
from agent.api.kinds import CLUSTER_TARGETS, MUTATING_WEBHOOKS, NAMESPACES, PODS, SERVICE_ACCOUNTS, TARGETS, Kind
from agent.kube.errors import Invalid, StatusError
from agent.model.proxypod import is_proxy, source_pod
from tests.waiting import until
from tests.webhook.replica import Place, Raw, elected, pod

pytestmark = pytest.mark.cluster

SHORT = "multicluster/elect"


def target(kind: Kind, name: str, namespace: str | None = None) -> Raw:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, "spec": {"self": True}}


def owned_by_chaperon(name: str) -> Raw:
    made = elected(name)
    made["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "multicluster.admiralty.io/v1alpha1",
            "kind": "PodChaperon",
            "name": name,
            "uid": "8b7a2f6e",
            "controller": True,
        }
    ]
    return made


async def test_elected_pods_become_proxy_pods_and_others_stay_as_they_are(place: Place) -> None:
    async with place.replica():
        long = await place.create(elected("long"))
        short = await place.create(pod("short", {SHORT: ""}))
        plain = await place.create(pod("plain"))
        delegate = await place.create(owned_by_chaperon("delegate"))
    assert is_proxy(long)
    assert is_proxy(short)
    assert long["metadata"]["labels"] == {"multicluster.admiralty.io/has-finalizer": "true"}
    assert long["spec"]["nodeSelector"] == {"virtual-kubelet.io/provider": "admiralty"}
    assert long["spec"]["terminationGracePeriodSeconds"] == 0
    for untouched in (plain, delegate):
        assert untouched["spec"]["schedulerName"] == "default-scheduler"
        assert "labels" not in untouched["metadata"]


async def test_pods_of_namespaces_without_the_label_stay_as_they_are(place: Place) -> None:
    async with place.replica():
        unlabelled = {"metadata": {"labels": {"multicluster-scheduler": None}}}
        await place.client.patch(NAMESPACES, place.namespace, unlabelled)
        await until(lambda: not_mutated(place), what="API server sees the namespace without label")


async def not_mutated(place: Place) -> bool:
    return not await place.mutates()


async def test_what_the_api_server_knows_and_we_do_not_survives(place: Place) -> None:
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    sent = elected("exotic", os={"name": "linux"}, setHostnameAsFQDN=True, schedulingGates=[{"name": "example.com/g"}])
    sent["spec"]["containers"][0]["resizePolicy"] = policy
    async with place.replica():
        proxy = await place.create(sent)
    source = source_pod(proxy)
    for found in (proxy["spec"], source["spec"]):
        assert found["os"] == {"name": "linux"}
        assert found["setHostnameAsFQDN"] is True
        assert found["containers"][0]["resizePolicy"] == policy
        assert found["schedulingGates"] == [{"name": "example.com/g"}]
    assert source["metadata"]["namespace"] == place.namespace
    assert source["spec"]["schedulerName"] == "default-scheduler"


async def test_a_bad_annotation_is_refused_with_field_and_reason(place: Place) -> None:
    key = "multicluster.admiralty.io/proxy-pod-scheduling-constraints"
    async with place.replica():
        with pytest.raises(Invalid) as refused:
            await place.create(elected("bad", {key: "nodeSelectors: {}"}))
    message = refused.value.message
    assert f'admission webhook "{place.namespace}.multicluster.admiralty.io" denied the request' in message
    assert f"metadata.annotations[{key}]" in message
    assert "nodeSelectors" in message


async def test_without_the_webhook_only_elected_pods_are_refused(place: Place) -> None:
    async with place.replica():
        pass
    with pytest.raises(StatusError, match="failed calling webhook"):
        await place.create(elected("elected"))
    with pytest.raises(StatusError, match="failed calling webhook"):
        await place.create(pod("short", {SHORT: ""}))
    for name, created in (
        ("plain", pod("plain")),
        ("other", pod("other", {"example.com/a": "b"})),
        ("opted-out", pod("opted-out", {SHORT: "false"})),
        ("delegate", owned_by_chaperon("delegate")),
    ):
        assert (await place.create(created))["metadata"]["name"] == name


async def test_a_pod_that_passes_through_two_webhooks_is_mutated_once(place: Place) -> None:
    async with place.replica("--reinvocation-policy=IfNeeded"):
        once = await place.create(elected("once"))
        async with place.replica(f"--configuration-name={place.namespace}-b", "--reinvocation-policy=IfNeeded"):
            twice = await place.create(elected("twice"))
    assert is_proxy(twice)
    assert twice["spec"].keys() == once["spec"].keys()
    assert twice["spec"]["tolerations"] == once["spec"]["tolerations"]
    source = source_pod(twice)
    assert not is_proxy(source)
    assert "nodeSelector" not in source["spec"]


async def test_a_dry_run_leaves_nothing(place: Place) -> None:
    async with place.replica():
        assert is_proxy(await place.create(elected("dry"), dry_run=True))
    assert await place.client.list(PODS, place.namespace) == []


async def test_targets_made_and_deleted_count_at_once(place: Place) -> None:
    both = sorted((names.finalizer(place.namespace, "c2"), names.finalizer("", place.namespace)))

    async def put(wanted: list[str]) -> bool:
        made = await place.create(elected("probe"), dry_run=True)
        return list(made["metadata"].get("finalizers", ())) == wanted

    async with place.replica():
        assert await put([])
        await place.client.create(TARGETS, target(TARGETS, "c2", place.namespace))
        await place.client.create(CLUSTER_TARGETS, target(CLUSTER_TARGETS, place.namespace))
        try:
            await until(lambda: put(both), what="finalizers of new targets")
        finally:
            await place.client.delete(TARGETS, "c2", place.namespace)
            await place.client.delete(CLUSTER_TARGETS, place.namespace)
        await until(lambda: put([]), what="no finalizers of deleted targets")


async def test_a_foreign_configuration_gets_our_trust_and_nothing_else(place: Place) -> None:
    settings = ("--register=false",)
    async with place.replica(*settings, ready=False) as webhook:
        await until(
            lambda: not_found(webhook.certificate_loop.registration_problem()), what="complaint about the registration"
        )
        assert await place.secret()
        assert not await place.is_ready(webhook)
        made = configuration_of(place, f"https://{webhook.settings.bind}/mutate--v1-pod")
        await place.client.create(MUTATING_WEBHOOKS, made)
        await until(lambda: place.is_ready(webhook), what="replica ready")
        found = await place.configuration()
        assert found["webhooks"][0]["timeoutSeconds"] == 7
        assert await place.trusted() == (await place.secret())["ca.crt"]
        await until(place.mutates, what="API server calls the webhook")


async def not_found(problem: str | None) -> bool:
    return problem is not None and "start with --register" in problem


def configuration_of(place: Place, url: str) -> Raw:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    webhook = {
        "name": f"{place.namespace}.multicluster.admiralty.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": url},
        "rules": [rule],
        "sideEffects": "None",
        "timeoutSeconds": 7,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": place.namespace}},
    }
    return {
        "apiVersion": MUTATING_WEBHOOKS.api_version,
        "kind": MUTATING_WEBHOOKS.name,
        "metadata": {"name": place.namespace},
        "webhooks": [webhook],
    }


async def elects_by_default(place: Place) -> None:
    label = {"metadata": {"labels": {names.LABEL_ELECT_BY_DEFAULT: "true"}}}
    await place.client.patch(NAMESPACES, place.namespace, label)

    async def seen() -> bool:
        made = await place.create(pod("probe"), dry_run=True)
        return bool(made["spec"]["schedulerName"] == names.SCHEDULER_PROXY)

    await until(seen, what="API server sees the label of the namespace")


def owned_by_daemon_set(name: str) -> Raw:
    made = pod(name)
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agents", "uid": "8b7a2f6e", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made


async def test_a_namespace_that_elects_by_default_needs_no_annotations(place: Place) -> None:
    async with place.replica():
        await elects_by_default(place)
        plain = await place.create(pod("plain"))
        annotated = await place.create(elected("annotated"))
        opted_out = await place.create(pod("opted-out", {SHORT: "false"}))
        delegate = await place.create(owned_by_chaperon("delegate"))
        daemon = await place.create(owned_by_daemon_set("daemon"))
        placed = await place.create(pod("placed", nodeName="test-node-0"))
    assert is_proxy(plain)
    assert is_proxy(annotated)
    assert not is_proxy(source_pod(plain))
    assert plain["spec"].keys() == annotated["spec"].keys()
    for untouched in (opted_out, delegate, daemon, placed):
        assert untouched["spec"]["schedulerName"] == "default-scheduler"
        assert names.LABEL_HAS_FINALIZER not in untouched["metadata"].get("labels", {})


async def test_where_pods_are_elected_by_default_they_wait_for_the_webhook(place: Place) -> None:
    async with place.replica():
        await elects_by_default(place)
    with pytest.raises(StatusError, match="failed calling webhook"):
        await place.create(pod("plain"))
    for name, created in (
        ("opted-out", pod("opted-out", {SHORT: "false"})),
        ("delegate", owned_by_chaperon("delegate")),
        ("daemon", owned_by_daemon_set("daemon")),
        ("placed", pod("placed", nodeName="test-node-0")),
    ):
        assert (await place.create(created))["metadata"]["name"] == name


async def test_what_targets_do_not_have_is_a_warning_to_the_user(place: Place) -> None:
    await place.client.create(TARGETS, target(TARGETS, "eu", place.namespace))
    status = {"status": {"namespaces": [{"name": place.namespace, "serviceAccounts": []}]}}
    await place.client.patch(TARGETS, "eu", status, place.namespace, sub="status")
    account = {"metadata": {"name": "builder"}}
    await place.client.create(SERVICE_ACCOUNTS, account, place.namespace)
    async with place.replica():
        (warning,) = await place.warnings(PODS, elected("builds", serviceAccountName="builder"))
        assert await place.warnings(PODS, elected("builds")) == []
    assert warning == (
        f"service account builder does not exist in namespace {place.namespace} of Target eu: "
        "the pod cannot run anywhere until it does, or follows the pod from here: "
        "annotate pod or namespace multicluster/follow-service-account=true, where Sources allow accounts"
    )
