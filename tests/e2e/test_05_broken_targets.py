"""Promise 5: a Target that cannot be used reports the reason, and does not affect other Targets."""

import ipaddress
import json
from typing import Any

import pytest

from agent.api.kinds import EVENTS, SECRETS, SERVICE_ACCOUNTS, TARGETS
from agent.api.names import virtual_node
from agent.kube.errors import Invalid
from hack.lab.sandbox import kubeconfig
from hack.lab.sandbox.errors import NoNamespacesError
from hack.lab.sandbox.objects import apply
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, condition, token_of
from tests.e2e.manifests import DEPLOYMENTS

Raw = dict[str, Any]

BROKEN = {
    "no-secret": ("SecretNotFound", "create it"),
    "broken": ("InvalidKubeconfig", "Secret"),
    "wrong-token": ("Unauthorized", "renew the kubeconfig Secret"),
    "silent": ("Unreachable", ""),
    "no-source": ("Forbidden", "create a Source there"),
}
"""Names of broken Targets: the reason of the condition, and a part of its message."""


def silent_address(fleet: Fleet) -> str:
    """Return an unused address in the clusters' network."""
    if not fleet.sandbox.plan.subnet:
        raise NoNamespacesError("a silent address takes a network of the clusters' own, which takes root")
    return str(ipaddress.IPv4Network(fleet.sandbox.plan.subnet)[250])


async def break_targets(fleet: Fleet, namespace: str) -> None:
    """Create one Target of each broken kind in a namespace."""
    us = fleet.sandbox["us"]
    authority = (us.directory / "pki" / "ca.crt").read_bytes()
    good = await fleet.kubeconfig(namespace, "us")
    await fleet.clients["us"].create(
        SERVICE_ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody"}}, namespace
    )
    nobody = await token_of(fleet.clients["us"], "nobody", namespace)
    texts = {
        "broken": "clusters: [",
        "wrong-token": kubeconfig.render("us", us.server, authority, token="wrong"),
        "silent": good.replace(us.server, f"https://{silent_address(fleet)}:6443"),
        "no-source": kubeconfig.render("us", us.server, authority, token=nobody),
    }
    for name, text in texts.items():
        await apply(fleet.source, SECRETS, manifests.secret(name, namespace, text))
    for name in BROKEN:
        spec = {"kubeconfigSecret": {"name": name}}
        await apply(fleet.source, TARGETS, manifests.ours("Target", name, namespace, spec))


async def test_each_broken_target_says_what_is_wrong_and_the_others_get_the_pods(fleet: Fleet, namespace: str) -> None:
    await break_targets(fleet, namespace)
    for name, (reason, remedy) in BROKEN.items():
        await says(fleet, namespace, name, reason, remedy)
    await fleet.source.create(DEPLOYMENTS, manifests.spread_out("web", 30), namespace)
    await fleet.running(namespace, "web", 30)
    fleet.census.check(namespace, at_most=30)
    assert {cluster for cluster, _ in (await fleet.delegates(namespace)).values()} == {"us", "eu"}
    # The scheduler has not tried a broken target: the annotation lists targets that could not run the pod.
    for pod in await fleet.pods(namespace, "web"):
        tried = json.loads(pod["metadata"]["annotations"].get("multicluster/attempts", "{}"))
        assert not tried.keys() & {virtual_node(namespace, name) for name in BROKEN}
    for name, (reason, _) in BROKEN.items():
        ready = condition(await fleet.source.get(TARGETS, name, namespace), "Ready")
        assert (ready["status"], ready["reason"]) == ("False", reason)
    for name in ("us", "eu"):
        await fleet.ready(namespace, name)


async def says(fleet: Fleet, namespace: str, name: str, reason: str, remedy: str) -> None:
    """Wait until a Target's condition and a Warning event about it have the reason."""

    async def told() -> bool:
        ready = condition(await fleet.source.get(TARGETS, name, namespace), "Ready")
        events = await fleet.source.list(EVENTS, namespace, fields=f"involvedObject.name={name},type=Warning")
        return (
            (ready.get("status"), ready.get("reason")) == ("False", reason)
            and remedy in ready["message"]
            and reason in {event["reason"] for event in events}
        )

    await fleet.until(f"Target {name} says {reason}", told, about=namespace)


@pytest.mark.full("A variant of the test of each broken Target.")
async def test_a_broken_target_that_is_mended_takes_pods(fleet: Fleet) -> None:
    async with fleet.namespace(targets=("us",)) as namespace:
        spec = {"kubeconfigSecret": {"name": "late"}}
        await apply(fleet.source, TARGETS, manifests.ours("Target", "late", namespace, spec))
        await says(fleet, namespace, "late", *BROKEN["no-secret"])
        await fleet.join(namespace, "eu", name="late")
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 12), namespace)
        pods = await fleet.running(namespace, "web", 12)
        assert {pod["spec"]["nodeName"] for pod in pods} == {virtual_node(namespace, each) for each in ("us", "late")}


@pytest.mark.full("A variant of the test of each broken Target.")
@pytest.mark.parametrize("spec", [{}, {"self": True, "kubeconfigSecret": {"name": "x"}}, {"self": False}], ids=str)
async def test_neither_or_both_of_self_and_secret_are_refused(fleet: Fleet, namespace: str, spec: Raw) -> None:
    with pytest.raises(Invalid, match=r"self.*kubeconfigSecret|kubeconfigSecret.*self"):
        await fleet.source.create(TARGETS, manifests.ours("Target", "odd", namespace, spec))
