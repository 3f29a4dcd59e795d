"""Promise 53: only what an administrator of the source permits reaches targets, and refusals reveal no Secret."""

from typing import Any

import msgspec
import pytest

from agent.api import names
from agent.api.kinds import (
    CHAPERONS,
    CONFIGMAPS,
    EVENTS,
    INGRESSES,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from hack.lab.sandbox.errors import SandboxError
from tests.e2e import manifests, shared
from tests.e2e.fleet import Fleet, condition

Raw = dict[str, Any]

GATE = {"schedulingGates": [{"name": "flotilla.test/gate"}]}
NEEDS = {
    "volumes": [
        {"name": "words", "configMap": {"name": "words"}},
        {"name": "key", "secret": {"secretName": "key"}},
    ]
}
TARGETS = ("us", "eu")


async def label(fleet: Fleet, namespace: str, value: str | None) -> None:
    """Set a namespace's enabling label as an administrator does; None removes it."""
    await fleet.source.patch(NAMESPACES, namespace, {"metadata": {"labels": {names.LABEL_ENABLED: value}}})


async def needed(fleet: Fleet, namespace: str) -> None:
    """Create the ConfigMap and the Secret that pods refer to."""
    await fleet.source.create(CONFIGMAPS, {"metadata": {"name": "words"}, "data": {"a": "1"}}, namespace)
    await fleet.source.create(SECRETS, {"metadata": {"name": "key"}, "stringData": {"a": "1"}}, namespace)


async def waits(fleet: Fleet, namespace: str, name: str, words: str) -> None:
    """Wait until a pod's condition PodScheduled contains the words."""

    async def told() -> bool:
        pod = await fleet.source.get(PODS, name, namespace)
        return words in condition(pod, "PodScheduled").get("message", "")

    await fleet.until(f"{name} says {words}", told, about=namespace)


async def in_targets(fleet: Fleet, namespace: str) -> set[str]:
    """Return the objects of a namespace that the source has created in its targets."""
    found = set()
    for cluster in TARGETS:
        for kind in (CHAPERONS, PODS, CONFIGMAPS, SECRETS, SERVICES):
            for each in await fleet.clients[cluster].list(kind, namespace, labels=names.LABEL_PARENT_UID):
                found.add(f"{cluster} {kind.plural}/{each['metadata']['name']}")
    return found


def is_sticky(service: Raw) -> bool:
    """Return True if a Service routes each client to the same pod every time."""
    return bool(service["spec"]["sessionAffinity"] == "ClientIP")


async def test_nothing_of_a_namespace_that_is_not_enabled_goes_to_a_target(fleet: Fleet, namespace: str) -> None:
    await needed(fleet, namespace)
    await fleet.source.create(PODS, manifests.pod("web", **NEEDS, **GATE), namespace)
    await label(fleet, namespace, None)
    await fleet.source.patch(PODS, "web", {"spec": {"schedulingGates": []}}, namespace)
    await fleet.source.create(SERVICES, shared.service("web"), namespace)
    await fleet.source.create(SERVICES, shared.service("api", {"multicluster/global": "true"}), namespace)
    command = f"kubectl label namespace {namespace} multicluster-scheduler=enabled"
    await waits(fleet, namespace, "web", command)

    async def told() -> bool:
        api = await fleet.source.get(SERVICES, "api", namespace)
        return command in condition(api, "multicluster/Shared").get("message", "")

    await fleet.until("the Service says why it has no copies", told, about=namespace)

    async def shown() -> bool:
        events = await fleet.source.list(EVENTS, namespace, fields="reason=FailedScheduling")
        return any(command in each["message"] for each in events)

    await fleet.until("an event says it, too", shown, about=namespace)
    assert await in_targets(fleet, namespace) == set()
    web = await fleet.source.get(SERVICES, "web", namespace)
    assert names.ANNOTATION_ORIGINAL_SELECTOR not in web["metadata"].get("annotations", {})

    await label(fleet, namespace, "enabled")
    await fleet.running(namespace, "web", 1)
    for cluster in TARGETS:
        for name in ("web", "api"):
            await shared.has(fleet, cluster, SERVICES, namespace, name, lambda copy: True)


@pytest.mark.full("Controller and webhook tests cover the same refusal.")
async def test_an_ingress_takes_certificates_along_and_no_other_secret(fleet: Fleet, namespace: str) -> None:
    account = {"annotations": {"kubernetes.io/service-account.name": "default"}}
    token = {"metadata": {"name": "token", **account}, "type": "kubernetes.io/service-account-token"}
    await fleet.source.create(SECRETS, token, namespace)
    data = {"stringData": {"tls.crt": "x", "tls.key": "y"}}
    await fleet.source.create(SECRETS, {"metadata": {"name": "tls"}, "type": "kubernetes.io/tls", **data}, namespace)
    await fleet.source.create(SERVICES, shared.service("web", {"multicluster/global": "true"}), namespace)
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    tls = [{"secretName": name} for name in ("token", "tls")]
    ingress = {"metadata": {"name": "web"}, "spec": {"defaultBackend": backend, "tls": tls}}
    await fleet.source.create(INGRESSES, ingress, namespace)
    for cluster in TARGETS:
        await shared.has(fleet, cluster, SECRETS, namespace, "tls", lambda copy: True)
        await shared.has(fleet, cluster, INGRESSES, namespace, "web", lambda copy: True)

    async def told() -> bool:
        events = await fleet.source.list(EVENTS, namespace, fields="involvedObject.kind=Ingress")
        words = "Secret token is of type kubernetes.io/service-account-token"
        return any(words in each["message"] and "kubernetes.io/tls only" in each["message"] for each in events)

    await fleet.until("the Ingress says what does not go along", told, about=namespace)
    for cluster in TARGETS:
        assert await shared.is_gone(fleet, cluster, SECRETS, namespace, "token")


@pytest.mark.full("Controller and webhook tests cover the same refusal.")
async def test_who_may_make_targets_hears_of_a_secret_only_what_he_may_read(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(SECRETS, {"metadata": {"name": "secret"}, "stringData": {"a": "b"}}, namespace)
    here, targets = ("-n", namespace, "create"), "--resource=targets.multicluster.admiralty.io"
    await fleet.kubectl("cd", *here, "role", "joiner", "--verb=create,get", targets)
    await fleet.kubectl("cd", *here, "rolebinding", "joiner", "--role=joiner", "--user=mallory")
    for name, said in (("secret", "has no key 'config'"), ("missing", "does not exist")):
        target = manifests.ours("Target", "c9", namespace, {"kubeconfigSecret": {"name": name}})
        path = fleet.sandbox.directory / f"{name}.json"
        path.write_bytes(msgspec.json.encode(target))
        dry_run = ("create", "--dry-run=server", "--warnings-as-errors", "-f", str(path))
        with pytest.raises(SandboxError, match=said):
            await fleet.kubectl("cd", *dry_run)
        assert "c9" in await fleet.kubectl("cd", "--as=mallory", *dry_run)


@pytest.mark.full("Controller and webhook tests cover the same refusal.")
async def test_only_accounts_that_their_namespace_names_have_tokens_in_targets(fleet: Fleet, namespace: str) -> None:
    async def permit(accounts: str) -> None:
        annotations = {names.SHORT_PREFIX + names.SOURCE_API_ACCOUNTS: accounts}
        await fleet.source.patch(NAMESPACES, namespace, {"metadata": {"annotations": annotations}})

    async def have(*pods: str) -> None:
        async def probe() -> bool:
            found = [
                secret["metadata"]["annotations"][names.ANNOTATION_PARENT_NAME]
                for cluster in TARGETS
                for secret in await fleet.clients[cluster].list(SECRETS, namespace, labels=names.LABEL_TOKEN_OF)
            ]
            return sorted(found) == sorted(pods)

        await fleet.until(f"{pods} have tokens", probe, about=namespace)

    async def told() -> bool:
        events = await fleet.source.list(EVENTS, namespace, fields="reason=SourceApiBlocked,involvedObject.name=other")
        return any(f"ServiceAccount {namespace}/default" in each["message"] for each in events)

    await permit("builder")
    asks = {names.SHORT_PREFIX + names.SOURCE_API: "true"}
    for client in fleet.clients.values():
        await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "builder"}}, namespace)
    builder = manifests.pod("named", annotations=asks, serviceAccountName="builder")
    for pod in (builder, manifests.pod("other", annotations=asks)):
        await fleet.source.create(PODS, pod, namespace)
    await fleet.until("the other pod is told why it has none", told, about=namespace)
    await have("named")
    await permit("builder, default")
    await have("named", "other")
    await permit("")
    await have()


@pytest.mark.full("Controller and webhook tests cover the same refusal.")
async def test_pods_of_a_namespace_that_is_no_longer_enabled_are_served_to_their_end(
    fleet: Fleet, namespace: str
) -> None:
    await needed(fleet, namespace)
    await fleet.source.create(SERVICES, shared.service("web"), namespace)
    await fleet.source.create(PODS, manifests.pod("web", **NEEDS), namespace)
    await fleet.source.create(PODS, manifests.pod("late", **GATE), namespace)
    await fleet.running(namespace, "web", 1)
    await shared.marked(fleet, namespace, "web")
    await shared.known_everywhere(fleet, namespace, "web", 1)
    ((cluster, before),) = (await fleet.delegates(namespace)).values()
    await label(fleet, namespace, None)
    await fleet.source.patch(PODS, "late", {"spec": {"schedulingGates": []}}, namespace)
    await waits(fleet, namespace, "late", f"kubectl label namespace {namespace}")

    await fleet.source.patch(CONFIGMAPS, "words", {"data": {"a": "2"}}, namespace)
    await shared.has(fleet, cluster, CONFIGMAPS, namespace, "words", lambda copy: copy["data"] == {"a": "2"})
    await fleet.source.patch(SERVICES, "web", {"spec": {"sessionAffinity": "ClientIP"}}, namespace)
    for each in TARGETS:
        await shared.has(fleet, each, SERVICES, namespace, "web", is_sticky)
    await shared.known_everywhere(fleet, namespace, "web", 1)
    ((_, after),) = (await fleet.delegates(namespace)).values()
    assert after["metadata"]["uid"] == before["metadata"]["uid"]

    await fleet.source.delete(PODS, "web", namespace)
    await fleet.source.delete(PODS, "late", namespace)

    async def clean() -> bool:
        return await in_targets(fleet, namespace) == set()

    await fleet.until("nothing is left in targets", clean, about=namespace)
