"""Promise 71: an application's containers run where its bundles select, call each other, and lose no request.

The test uses the article's example with images that it builds, since there is no registry. There is no cluster
DNS either: the frontend finds the backend's Service by the environment variables of the kubelet."""

import asyncio
import contextlib
import functools
import itertools
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CLUSTER_SOURCES,
    CLUSTER_TARGETS,
    CONFIGMAPS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    NAMESPACES,
    PODS,
    SCHEDULING_MANIFESTS,
)
from agent.api.names.ocm import GLOBAL_SET, LABEL_CLUSTER_SET
from hack.lab.sandbox import SandboxError
from hack.lab.sandbox.realnode import images
from tests.e2e import applications, manifests, requester, shared
from tests.e2e.applications import CLAIM, DISTRIBUTIONS, HOMES, REPLICAS, become, uids, where
from tests.e2e.fleet import Fleet
from tests.e2e.traffic import history, traffic
from tests.e2e.webpods import IMAGE, in_clusters, web
from tests.ocm import object_of

pytestmark = [pytest.mark.realnodes]

Raw = dict[str, Any]
HOME, DEMO, SET = "p2code-scheduler-system", "demo", "p2code"
"""Names in the article's example."""
RIGHTS = "p2code-makes-namespaces"
_HOST_NAME = "mkdir -p /www; hostname > /www/index.html; exec httpd -f -p {} -h /www"
STARTS = {
    "httpd": _HOST_NAME.format(80),
    "nginx": "exec httpd -f -p 80 -h /etc/nginx",
    "hello-backend": _HOST_NAME.format(8080),
    "hello-frontend": '[ -n "$BACKEND_SERVICE_HOST" ] && exec httpd -f -p 8080 -h /www',
}
"""Command by image: serve the host name, the configuration, or the backend's answer."""
FRONTEND = """#!/bin/sh
name=$(echo "${BACKEND_SERVICE_ADDRESS%:*}" | tr a-z- A-Z_)
eval host=\\$${name}_SERVICE_HOST
printf 'Content-Type: text/plain\\r\\n\\r\\n'
wget -qO- "http://$host:${BACKEND_SERVICE_ADDRESS#*:}/"
"""
OTHERS = tuple(f"other-{number}" for number in range(1, 10))
PLACES = dict(zip(("web", *OTHERS), itertools.cycle(DISTRIBUTIONS), strict=False))
"""Cluster by workload, alternating: ten workloads."""
PATIENCE_SECONDS = 120.0


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def placing(fleet: Fleet) -> AsyncIterator[None]:
    """Enable applications; each target claims a distribution."""
    async with applications.served(fleet):
        yield


@pytest_asyncio.fixture(loop_scope="session")
async def hub(fleet: Fleet, placing: None) -> AsyncIterator[None]:
    """Set up the example: its namespace, cluster set, service account, cluster-wide targets and images."""
    async with contextlib.AsyncExitStack() as stack:
        await _load(fleet)
        await stack.enter_async_context(fleet.namespace((), name=HOME))
        for cluster in DISTRIBUTIONS:
            await fleet.clients[cluster].create(NAMESPACES, manifests.namespace(DEMO, enabled=False))
            await stack.enter_async_context(_everywhere(fleet, cluster))
        await stack.enter_async_context(_set(fleet))
        await applications.grant(fleet, HOME, SET)
        await stack.enter_async_context(_makes_namespaces(fleet))
        stack.push_async_callback(fleet.leave, DEMO, "cd")
        yield


async def _load(fleet: Fleet) -> None:
    """Build the images and load them on every node. They differ in their command and in the frontend's page."""
    with tempfile.TemporaryDirectory() as folder:
        tree, more = Path(folder) / "tree", Path(folder) / "more"
        tree.mkdir()
        images.busybox_tree(fleet.sandbox.plan.programs["busybox"], tree)
        page = more / "www" / "cgi-bin" / "index.cgi"
        page.parent.mkdir(parents=True)
        page.write_text(FRONTEND)
        page.chmod(0o755)
        made = []
        for name, script in STARTS.items():
            start = images.Start(("/bin/sh", "-c", script), environment={"PATH": "/bin"})
            made.append(images.Image(_image(name), (tree, more) if name == "hello-frontend" else (tree,), start))
        await fleet.sandbox.load(images.build_all(made, Path(folder) / "images.tar"))


def _image(name: str) -> str:
    return f"flotilla.local/{name}:1"


@contextlib.asynccontextmanager
async def _everywhere(fleet: Fleet, cluster: str) -> AsyncIterator[None]:
    """Make a cluster a target for pods of all namespaces."""
    await fleet.join_everywhere(HOME, cluster, cluster)
    yield
    await fleet.source.delete(CLUSTER_TARGETS, cluster)
    await fleet.gone(CLUSTER_TARGETS, cluster)
    await fleet.clients[cluster].delete(CLUSTER_SOURCES, cluster)
    await fleet.clients[cluster].delete(NAMESPACES, DEMO)


@contextlib.asynccontextmanager
async def _set(fleet: Fleet) -> AsyncIterator[None]:
    """Create the ManagedClusterSet and add both targets to it."""
    await applications.claimed(fleet, HOME)
    await fleet.source.create(MANAGED_CLUSTER_SETS, object_of(MANAGED_CLUSTER_SETS, SET, spec={}))
    for cluster in DISTRIBUTIONS:
        await fleet.source.patch(MANAGED_CLUSTERS, cluster, {"metadata": {"labels": {LABEL_CLUSTER_SET: SET}}})
    yield
    await fleet.source.delete(MANAGED_CLUSTER_SETS, SET)


@contextlib.asynccontextmanager
async def _makes_namespaces(fleet: Fleet) -> AsyncIterator[None]:
    """Give the service account the rights to create namespaces and to edit objects in all of them."""
    source, bindings = fleet.source, (RIGHTS, "p2code-edits")
    rule = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "create", "patch", "delete"]}
    await source.create(CLUSTER_ROLES, {"metadata": {"name": RIGHTS}, "rules": [rule]})
    for name, role in zip(bindings, (RIGHTS, "edit"), strict=True):
        reference = {"apiGroup": CLUSTER_ROLES.group, "kind": CLUSTER_ROLES.name, "name": role}
        bound = {"metadata": {"name": name}, "roleRef": reference, "subjects": [applications.account(HOME)]}
        await source.create(CLUSTER_ROLE_BINDINGS, bound)
    yield
    for name in bindings:
        await source.delete(CLUSTER_ROLE_BINDINGS, name)
    await source.delete(CLUSTER_ROLES, RIGHTS)


def example() -> Raw:
    """Return the article's example with the registry and tag of the test's images."""
    psm = applications.article()
    for each in psm["spec"]["manifests"]:
        for container in each.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ()):
            container["image"] = _image(container["image"])
    return psm


async def ask(fleet: Fleet, pod: Raw, url: str) -> str:
    """Return the response that a pod's container receives from a URL."""
    return await fleet.kubectl("cd", "-n", DEMO, "exec", pod["metadata"]["name"], "--", "wget", "-qO-", url)


@pytest.mark.seldom
async def test_the_example_of_the_article_runs_on_containers_of_two_clusters(fleet: Fleet, hub: None) -> None:
    psm = example()
    await fleet.source.create(SCHEDULING_MANIFESTS, psm)
    await become(fleet, HOME, "SchedulingSuccessful", **HOMES)
    await applications.ready(fleet, HOME, REPLICAS, seconds=PATIENCE_SECONDS)
    assert await where(fleet, DEMO) == {app: {cluster} for app, cluster in HOMES.items()}

    # The ConfigMap is copied to nginx's cluster only.
    (settings,) = (each["data"] for each in psm["spec"]["manifests"] if each["kind"] == "ConfigMap")
    for pod in await fleet.pods(DEMO, "nginx"):
        assert await ask(fleet, pod, "http://127.0.0.1/nginx.conf") == settings["nginx.conf"]
    there = {cluster: await fleet.clients[cluster].list(CONFIGMAPS, DEMO) for cluster in DISTRIBUTIONS}
    named = {cluster: {each["metadata"]["name"] for each in found} for cluster, found in there.items()}
    assert {cluster for cluster, found in named.items() if "server-config" in found} == {"eu"}

    # Through the frontend all backends in the other cluster answer.
    (frontend,), (caller, _) = await fleet.pods(DEMO, "hello-frontend"), await fleet.pods(DEMO, "httpd")
    backends = {each["metadata"]["name"] for each in await fleet.pods(DEMO, "hello-backend")}
    answers: set[str] = set()

    async def answered() -> bool:
        # The frontend's answer is empty until kube-proxy routes traffic to the backends.
        with contextlib.suppress(SandboxError):
            answer = (await ask(fleet, caller, f"http://{frontend['status']['podIP']}:8080/")).strip()
            answers.update({answer} - {""})
        return answers >= backends

    await fleet.until(f"the frontend answers by {backends}", answered, about=DEMO)
    assert answers == backends
    told = applications.conditions(await become(fleet, HOME, "SchedulingSuccessful", **HOMES), "LinksReady")
    assert (told["status"], told["reason"]) == ("True", "Connected")

    await fleet.source.delete(SCHEDULING_MANIFESTS, "example", HOME)
    await fleet.gone(SCHEDULING_MANIFESTS, "example", HOME)
    await fleet.gone(NAMESPACES, DEMO)
    for cluster in DISTRIBUTIONS:
        assert await fleet.clients[cluster].list(PODS, DEMO) == []


def many(namespace: str) -> Raw:
    """Return an application with a workload for each of PLACES: `web` with two pods and a Service, and idle
    ones."""
    deployments = [web("web", 2)]
    for name in OTHERS:
        made = manifests.deployment(name, 1, terminationGracePeriodSeconds=1)
        made["spec"]["template"]["spec"]["containers"][0] |= {**IMAGE, "command": ["sleep", "100000"]}
        deployments.append(made)
    found = [{"apiVersion": "apps/v1", "kind": "Deployment", **each} for each in deployments]
    found.append(shared.service("web"))
    for each in found:
        each["metadata"]["namespace"] = namespace
    filters = [{"name": name, "annotations": [f"{CLAIM}={DISTRIBUTIONS[cluster]}"]} for name, cluster in PLACES.items()]
    spec = {
        "globalAnnotations": [f"p2code.target.managedClusterSet={GLOBAL_SET}"],
        "workloadAnnotations": filters,
        "manifests": found,
    }
    return object_of(SCHEDULING_MANIFESTS, "example", namespace, spec=spec)


async def reached(fleet: Fleet, namespace: str) -> bool:
    """Return True if all requests of one second succeed: a kube-proxy receives endpoints later than its API
    server.

    A failing call takes as long as the client's timeout, since a request without endpoints gets no answer."""
    async with traffic(fleet, namespace, "web") as asked:
        await asyncio.sleep(1)
    failed = {name: each["failed"] for name, each in asked.results.items() if each["failed"]}
    print(f"not answered: {failed}")
    return not failed


@pytest.mark.seldom
@pytest.mark.timeout(1500)
async def test_an_edit_moves_one_bundle_of_ten_without_a_failed_request_and_touches_no_other(
    fleet: Fleet, placing: None
) -> None:
    async with fleet.namespace() as namespace:
        await applications.grant(fleet, namespace, GLOBAL_SET)
        await applications.claimed(fleet, namespace)
        psm = many(namespace)
        await fleet.source.create(SCHEDULING_MANIFESTS, psm)
        await become(fleet, namespace, "SchedulingSuccessful", **PLACES)
        await applications.ready(fleet, namespace, {"web": 2, **dict.fromkeys(OTHERS, 1)}, seconds=600)
        await shared.marked(fleet, namespace, "web")
        names = await in_clusters(fleet, namespace, {"us"}, 2)
        await shared.known_everywhere(fleet, namespace, "web", 2, app="web")
        answered, patience = functools.partial(reached, fleet, namespace), 5 * requester.SECONDS
        await fleet.until("every client is answered", answered, about=namespace, seconds=patience)
        before = await uids(fleet, namespace, [*PLACES])
        began = time.monotonic()
        async with traffic(fleet, namespace, "web") as asked, history(fleet, namespace, "web") as found:
            await asked.met(names)
            psm["spec"]["workloadAnnotations"][0]["annotations"] = [f"{CLAIM}={DISTRIBUTIONS['eu']}"]
            await fleet.source.patch(SCHEDULING_MANIFESTS, "example", {"spec": psm["spec"]}, namespace)
            await become(fleet, namespace, "SchedulingSuccessful", **{**PLACES, "web": "eu"})
            names = await in_clusters(fleet, namespace, {"eu"}, 2)
            await shared.known_everywhere(fleet, namespace, "web", 2, app="web")
            await asked.met(names)
        asked.none_failed(time.monotonic() - began)
        assert min(found.available) >= 2, f"fewer were available: {found.available}"
        after = await uids(fleet, namespace, [*PLACES])
        assert [len(after[app]) for app in PLACES] == [2] + [1] * len(OTHERS)
        assert not before.pop("web") & after.pop("web")
        assert after == before, "pods of other bundles are what they were"
        # Namespace deletion may remove the account's rights before the application.
        await fleet.source.delete(NAMESPACES, namespace)
        await fleet.gone(SCHEDULING_MANIFESTS, "example", namespace)
