from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from agent.api.kinds import CLUSTER_TARGETS, TARGETS
from agent.kube.client import Client
from agent.kube.config import Connection
from agent.kube.session import Session
from agent.kube.store import Object
from webhook.targets import Targets

FOLLOWS = (
    ", or follows the pod from here: annotate pod or namespace multicluster/follow-service-account=true, where Sources"
    " allow accounts"
)


def target(name: str, namespace: str = "", *, deleted: str | None = None) -> Object:
    metadata = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}", "resourceVersion": "1"}
    if deleted:
        metadata["deletionTimestamp"] = deleted
    kind = TARGETS if namespace else CLUSTER_TARGETS
    return Object(kind, msgspec.json.encode({"metadata": metadata}))


@pytest.fixture
async def targets() -> AsyncIterator[Targets]:
    async with Session(Connection("http://127.0.0.1:1")) as session:
        yield Targets(Client(session))


async def test_a_namespace_has_its_own_targets_and_every_cluster_target(targets: Targets) -> None:
    own, shared = (informer.store for informer in targets.informers)
    for obj in (target("c2", "default"), target("us-west", "default"), target("c3", "other")):
        own.put(obj)
    shared.put(target("us-west"))
    assert targets.finalizers("default") == [
        "multicluster.admiralty.io/default-c2",
        "multicluster.admiralty.io/default-us-west-7ac5b55b48",
        "multicluster.admiralty.io/us-west-dab4e7b425",
    ]
    assert targets.finalizers("nowhere") == ["multicluster.admiralty.io/us-west-dab4e7b425"]


async def test_a_target_that_is_being_deleted_does_not_count(targets: Targets) -> None:
    targets.informers[0].store.put(target("c2", "default", deleted="2030-01-01T00:00:00Z"))
    targets.informers[1].store.put(target("c1", deleted="2030-01-01T00:00:00Z"))
    assert targets.finalizers("default") == []


async def test_targets_are_known_once_both_kinds_were_listed(targets: Targets) -> None:
    assert targets.problem() is not None
    targets.informers[0].synced.set()
    assert not targets.synced
    assert "clustertargets" in str(targets.problem())
    targets.informers[1].synced.set()
    assert targets.synced
    assert targets.problem() is None


def having(name: str, namespace: str = "", *, follow: tuple[str, ...] = (), **lists: list[str]) -> Object:
    """Return a target that publishes the content of namespace `default`, and the kinds that are copied to it."""
    kind = TARGETS if namespace else CLUSTER_TARGETS
    metadata = {"name": name, "namespace": namespace, "uid": name, "resourceVersion": "1"}
    status = {"follow": follow, "namespaces": [{"name": "default", **lists}], "conditions": []}
    return Object(kind, msgspec.json.encode({"metadata": metadata, "status": status}))


def needing(account: str = "default", *claims: str) -> dict[str, Any]:
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    return {"spec": {"serviceAccountName": account, "volumes": [*volumes, {"name": "tmp", "emptyDir": {}}]}}


@pytest.fixture
def two(targets: Targets) -> Targets:
    own, shared = (informer.store for informer in targets.informers)
    own.put(having("eu", "default", serviceAccounts=["builder"], persistentVolumeClaims=["data"]))
    shared.put(having("us", serviceAccounts=[], persistentVolumeClaims=["data", "cache"]))
    return targets


def test_a_pod_that_every_target_can_run_brings_no_warning(two: Targets) -> None:
    assert two.missing("default", needing()) == []
    assert two.missing("default", needing("default", "data")) == []
    assert two.missing("default", {"spec": {}}) == []


def test_what_a_target_does_not_have_is_named_with_the_target(two: Targets) -> None:
    account, claim = two.missing("default", needing("builder", "cache"))
    assert account == (
        "service account builder does not exist in namespace default of ClusterTarget us: "
        f"the pod cannot run there until it does{FOLLOWS}"
    )
    assert claim == (
        "persistent volume claim cache does not exist in namespace default of Target eu: "
        "the pod cannot run there until it does, or follows the pod from here"
    )


def test_what_no_target_has_is_said_to_run_nowhere(two: Targets) -> None:
    (sentence,) = two.missing("default", needing("deployer", "data", "data"))
    assert sentence == (
        "service account deployer does not exist in namespace default of ClusterTarget us, Target eu: "
        f"the pod cannot run anywhere until it does{FOLLOWS}"
    )


def test_a_claim_that_follows_brings_no_warning_about_the_targets_that_it_follows_to(targets: Targets) -> None:
    own, shared = (informer.store for informer in targets.informers)
    own.put(having("eu", "default", follow=("persistentvolumeclaims",), serviceAccounts=[], persistentVolumeClaims=[]))
    assert targets.missing("default", needing("default", "data")) == []
    assert "service account builder" in targets.missing("default", needing("builder", "data"))[0]
    shared.put(having("us", persistentVolumeClaims=[]))
    (sentence,) = targets.missing("default", needing("default", "data"))
    assert sentence.startswith("persistent volume claim data does not exist in namespace default of ClusterTarget us:")
    assert "cannot run there" in sentence


def test_an_account_that_its_pod_asks_for_brings_no_warning_about_the_targets_that_it_follows_to(
    targets: Targets,
) -> None:
    own, shared = (informer.store for informer in targets.informers)
    own.put(having("eu", "default", follow=("serviceaccounts",), serviceAccounts=[]))
    asking = {**needing("builder"), "metadata": {"annotations": {"multicluster/follow-service-account": "true"}}}
    assert targets.missing("default", asking) == []
    assert "service account builder" in targets.missing("default", needing("builder"))[0]
    shared.put(having("us", serviceAccounts=[]))
    (sentence,) = targets.missing("default", asking)
    assert sentence.startswith("service account builder does not exist in namespace default of ClusterTarget us:")


def test_what_a_target_says_counts_from_then_on_in_as_many_namespaces_as_there_are(two: Targets) -> None:
    own, _ = (informer.store for informer in two.informers)
    before = two.missing("default", needing("builder"))
    assert two.missing("default", needing("builder")) == before
    own.put(having("eu", "default", serviceAccounts=[], persistentVolumeClaims=["data"]))
    assert "cannot run anywhere" in two.missing("default", needing("builder"))[0]
    for number in range(20):
        assert two.missing(f"team-{number}", needing("builder")) == []
    own.remove(("default", "eu"))
    assert two.missing("default", needing("builder")) == [before[0].replace("cannot run there", "cannot run anywhere")]


def test_what_is_not_known_brings_no_warning(targets: Targets) -> None:
    targets.informers[0].store.put(having("eu", "default", serviceAccounts=["builder"]))
    targets.informers[1].store.put(target("us"))
    assert targets.missing("default", needing("builder", "data")) == []
    assert "cannot run there" in targets.missing("default", needing("deployer"))[0]
    assert targets.missing("elsewhere", needing("deployer")) == []
