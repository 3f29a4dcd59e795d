"""Pods that use a service account in a target, although no pod requests it to follow any longer."""

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from agent.api import names
from agent.api.kinds import PODS, SERVICE_ACCOUNTS
from agent.dependencies.follow.needs import Item, Needs
from agent.kube.store import Object, Store

if TYPE_CHECKING:
    from agent.clusters.deps import Deps
    from agent.kube.informer import Informer

FOLLOW = names.SHORT_PREFIX + names.FOLLOW_ACCOUNT
BUILDER = Item("eu", SERVICE_ACCOUNTS, "team", "builder")


def obj(kind: Any, name: str, annotations: dict[str, str], namespace: str = "", **fields: Any) -> Object:
    metadata = {"name": name, "namespace": namespace, "uid": name, "annotations": annotations}
    return Object(kind, json.dumps({"metadata": metadata, **fields}).encode())


def needs(namespace: dict[str, str], *pods: Object) -> Needs:
    store = Store()
    informer = cast("Informer", SimpleNamespace(store=store, subscribe=lambda changed: None))
    found = SimpleNamespace(informer=informer, annotations=lambda name: namespace)
    made = Needs(
        cast("Deps", SimpleNamespace(namespaces=found, chaperons=SimpleNamespace(of=lambda key: []))),
        informer,
        (SERVICE_ACCOUNTS,),
        lambda items: None,
    )
    for each in pods:
        store.put(each)
    return made


def pod(annotations: dict[str, str] | None = None, phase: str = "Running", **spec: Any) -> Object:
    spec = {"serviceAccountName": "builder", "nodeName": "eu", **spec}
    return obj(PODS, "web", annotations or {}, "team", spec=spec, status={"phase": phase})


def test_a_pod_that_is_there_uses_its_account_whatever_its_namespace_asks_for_now() -> None:
    assert needs({}, pod()).is_in_use(BUILDER)
    assert needs({names.SHORT_PREFIX + names.ELECT_BY_DEFAULT: "false"}, pod()).is_in_use(BUILDER)


@pytest.mark.parametrize(
    "other",
    [pod(nodeName="us"), pod(serviceAccountName="tester"), pod(phase="Succeeded"), pod({FOLLOW: "false"})],
    ids=["elsewhere", "another account", "ended", "says no"],
)
def test_no_other_pod_does(other: Object) -> None:
    assert not needs({}, other).is_in_use(BUILDER)


def test_a_namespace_that_says_no_has_its_accounts_taken_back() -> None:
    assert not needs({FOLLOW: "false"}, pod()).is_in_use(BUILDER)
