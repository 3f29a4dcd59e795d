"""Promise 57: a source has the rights that its Source allows, none in system namespaces, and no lasting token."""

import asyncio
import contextlib
import functools
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import (
    CHAPERONS,
    CLUSTER_SOURCES,
    CONFIGMAPS,
    EVENTS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    POLICIES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SOURCES,
    SUBJECT_ACCESS_REVIEWS,
)
from agent.api.roles import EVERYTHING, FEATURES, NAMED_FEATURES, SOURCE, Grant
from agent.api.sourcepolicies import LONGEST_TOKEN_SECONDS
from agent.cli.joining.manifests import Names, renewal
from agent.kube.client import Client
from agent.kube.errors import Forbidden, Invalid, NotFound, Unauthorized
from hack.lab.sandbox import kubeconfig
from hack.lab.sandbox.objects import connect
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, condition, token_of

Raw = dict[str, Any]

CHECKS = "apiserver_validating_admission_policy_check_total{"
CLAIM = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}}
NEEDS = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}


async def may(client: Client, user: str, namespace: str, grant: Grant) -> bool:
    """Return True if a SubjectAccessReview allows the grant to a user."""
    attributes = {
        "group": grant.kind.group,
        "resource": grant.kind.plural,
        "subresource": grant.sub,
        "verb": grant.verb,
        "namespace": namespace,
    }
    review = {"metadata": {}, "spec": {"user": user, "resourceAttributes": attributes}}
    return bool((await client.create(SUBJECT_ACCESS_REVIEWS, review))["status"]["allowed"])


async def granted(client: Client, user: str, namespace: str) -> set[Grant]:
    """Return all grants that a source has."""
    answers = await asyncio.gather(*(may(client, user, namespace, grant) for grant in EVERYTHING))
    return {grant for grant, yes in zip(EVERYTHING, answers, strict=True) if yes}


def client_of(fleet: Fleet, cluster: str, name: str, token: str) -> Client:
    """Return a client that authenticates with a token."""
    authority = (fleet.sandbox.directory / cluster / "pki" / "ca.crt").read_bytes()
    path = fleet.sandbox.directory / f"{name}.kubeconfig"
    path.write_text(kubeconfig.render(cluster, fleet.sandbox[cluster].server, authority, token=token))
    return connect(path, name=name)


async def allow(fleet: Fleet, namespace: str, *features: str) -> None:
    """Set the features that the target's administrator allows the source."""
    await fleet.clients["us"].patch(SOURCES, "cd", {"spec": {"allow": list(features)}}, namespace)


async def test_a_source_may_do_what_it_has_with_admiralty_and_what_its_source_allows(fleet: Fleet) -> None:
    async with fleet.namespace(targets=("us",)) as namespace:
        us, user = fleet.clients["us"], f"system:serviceaccount:{namespace}:cd"
        assert await granted(us, user, namespace) == set(EVERYTHING).difference(
            *(FEATURES[name] for name in NAMED_FEATURES)
        )
        basic = {*SOURCE, *FEATURES["pods"]}
        for features in ((), ("volumes", "fence"), ("services", "accounts")):
            await allow(fleet, namespace, *features)
            want = basic.union(*(FEATURES[name] for name in features))

            async def is_so(want: set[Grant] = want) -> bool:
                return await granted(us, user, namespace) == want

            await fleet.until(f"{features} are allowed and nothing else", is_so, about=namespace)

        async def said() -> bool:
            ready = condition(await us.get(SOURCES, "cd", namespace), "Ready")
            return "with services, accounts" in ready.get("message", "")

        await fleet.until("the Source says what it allows", said, about=namespace)


@pytest.mark.full("A variant of the tests of a Source's rights.")
async def test_a_pod_whose_volume_is_not_allowed_says_what_to_do(fleet: Fleet) -> None:
    async with fleet.namespace(targets=("us",)) as namespace:
        await allow(fleet, namespace)
        us, user = fleet.clients["us"], f"system:serviceaccount:{namespace}:cd"

        async def is_refused() -> bool:
            return not await may(us, user, namespace, FEATURES["volumes"][0])

        await fleet.until("volumes are not allowed", is_refused)
        await fleet.source.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "data"}, **CLAIM}, namespace)
        await fleet.source.create(PODS, manifests.pod("web", **NEEDS), namespace)

        async def told() -> bool:
            events = await fleet.source.list(EVENTS, namespace, fields="involvedObject.name=web")
            return any("flotilla join --allow volumes" in each["message"] for each in events)

        await fleet.until("the pod says what to do", told, about=namespace)
        await allow(fleet, namespace, "volumes")
        claim = functools.partial(us.get, PERSISTENT_VOLUME_CLAIMS, "data", namespace)
        await fleet.until("the claim has followed", claim, about=namespace)


@pytest.mark.full("A variant of the tests of a Source's rights.")
async def test_no_source_is_given_the_account_of_all_pods_that_name_none(fleet: Fleet, namespace: str) -> None:
    for kind, spec in (
        (SOURCES, {"serviceAccountName": "default"}),
        (SOURCES, {"userName": f"system:serviceaccount:{namespace}:default"}),
        (CLUSTER_SOURCES, {"serviceAccount": {"name": "default", "namespace": namespace}}),
    ):
        made = manifests.ours(kind.name, "own", namespace if kind.namespaced else None, spec)
        with pytest.raises(Invalid, match="every pod that names no account runs as default"):
            await fleet.clients["us"].create(kind, made)


@pytest.mark.full("A variant of the tests of a Source's rights.")
async def test_a_cluster_source_writes_nothing_where_the_cluster_itself_lives(fleet: Fleet, namespace: str) -> None:
    us, name = fleet.clients["us"], f"wide-{namespace}"
    account = {"name": name, "namespace": namespace}
    await us.create(CLUSTER_SOURCES, manifests.ours("ClusterSource", name, None, {"serviceAccount": account}))
    source = client_of(
        fleet, "us", name, await fleet.until("its account is there", lambda: token_of(us, name, namespace))
    )
    try:
        words, says = {"metadata": {"name": "words"}, "data": {"a": "1"}}, f"ClusterSource {name} changes nothing in"
        await fleet.until("it may write elsewhere", lambda: source.create(CONFIGMAPS, words, namespace))
        for cluster_own in {"kube-system", fleet.home}:
            with pytest.raises(Forbidden, match=says):
                await source.create(CONFIGMAPS, words, cluster_own)
            await us.create(CONFIGMAPS, words, cluster_own)
            try:
                for refused in (
                    source.update(CONFIGMAPS, {"metadata": {"name": "words", "namespace": cluster_own}}),
                    source.delete(CONFIGMAPS, "words", cluster_own),
                    source.create(CHAPERONS, manifests.ours("PodChaperon", "web", cluster_own, {}), cluster_own),
                    source.session.request("POST", PODS.path(cluster_own, "web", "exec") + "?command=id", body=b""),
                ):
                    with pytest.raises(Forbidden, match=says):
                        await refused
                assert (await source.get(CONFIGMAPS, "words", cluster_own))["data"] == {"a": "1"}
                label = {"metadata": {"labels": {names.LABEL_PARENT_UID: "1"}}}
                await us.patch(CONFIGMAPS, "words", label, cluster_own)
                # The source may still delete copies that it created in that namespace before.
                await source.delete(CONFIGMAPS, "words", cluster_own)
            finally:
                with contextlib.suppress(NotFound):
                    await us.delete(CONFIGMAPS, "words", cluster_own)
    finally:
        await source.session.close()
        await us.delete(CLUSTER_SOURCES, name)


@pytest.mark.full("A variant of the tests of a Source's rights.")
async def test_a_source_gives_itself_no_token_that_lasts(fleet: Fleet, namespace: str) -> None:
    us = fleet.clients["us"]
    names_there = Names("cd", "us", cluster_scoped=False, source_namespace=namespace, target_namespace=namespace)
    for kind, manifest in renewal(names_there, await us.get(SOURCES, "cd", namespace)):
        await us.create(kind, manifest, namespace)
    source = client_of(fleet, "us", f"own-{namespace}", await token_of(us, "cd", namespace))
    try:
        for seconds, refused in ((LONGEST_TOKEN_SECONDS, False), (LONGEST_TOKEN_SECONDS + 1, True)):
            request = {"metadata": {"name": "cd"}, "spec": {"expirationSeconds": seconds}}
            asked = functools.partial(source.create, SERVICE_ACCOUNTS, request, namespace, sub="token")
            if refused:
                with pytest.raises(Forbidden, match=r"spec\.expirationSeconds: a source asks for tokens of 90 days"):
                    await asked()
            else:
                await fleet.until("it renews its own token", asked, about=namespace)
        metadata = {"name": "forever", "annotations": {"kubernetes.io/service-account.name": "cd"}}
        for_ever = {"metadata": metadata, "type": "kubernetes.io/service-account-token"}
        with pytest.raises(Forbidden, match="a source makes no Secrets of type"):
            await source.create(SECRETS, for_ever, namespace)
        await us.create(SECRETS, for_ever, namespace)
    finally:
        await source.session.close()


async def test_all_tokens_of_a_source_are_void_when_its_account_is_deleted(fleet: Fleet, namespace: str) -> None:
    us = fleet.clients["us"]
    stolen = client_of(fleet, "us", f"stolen-{namespace}", await token_of(us, "cd", namespace))
    try:
        await stolen.list(SECRETS, namespace)
        before = (await us.get(SERVICE_ACCOUNTS, "cd", namespace))["metadata"]["uid"]
        await fleet.kubectl("us", "-n", namespace, "delete", "serviceaccount", "cd")

        async def is_void() -> bool:
            try:
                await stolen.list(SECRETS, namespace)
            except Unauthorized:
                return True
            return False

        await fleet.until("the token is void", is_void, about=namespace)

        async def is_new() -> bool:
            found = await us.get(SERVICE_ACCOUNTS, "cd", namespace)
            return bool(found["metadata"]["uid"] != before)

        await fleet.until("there is an account again", is_new, about=namespace)
        assert await is_void()
        # The account's rights persist; a new token is enough.
        await fleet.join(namespace, "us")
        await fleet.source.create(PODS, manifests.pod("web"), namespace)
        await fleet.running(namespace, "web", 1)
    finally:
        await stolen.session.close()


@pytest.mark.full("A variant of the tests of a Source's rights.")
async def test_no_policy_passes_what_it_cannot_evaluate(fleet: Fleet) -> None:
    # An API server reports requests that a faulty policy lets pass in this metric only, as errors.
    counted = []
    for cluster, client in fleet.clients.items():
        for policy in await client.list(POLICIES):
            assert not policy.get("status", {}).get("typeChecking", {}).get("expressionWarnings"), (cluster, policy)
        page = (await client.session.request("GET", "/metrics", resource="metrics")).decode()
        counted += [line for line in page.splitlines() if line.startswith(CHECKS) and 'policy="multicluster-' in line]
    assert counted
    passed = [line for line in counted if 'enforcement_action="deny"' not in line]
    assert [line for line in passed if 'error_type="no_error"' not in line] == []
