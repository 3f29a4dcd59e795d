"""Namespaces that have Targets, found without iterating over all Targets."""

import json

from agent.api.kinds import CLUSTER_TARGETS, TARGETS
from agent.kube.store import Object
from agent.services.reroute.sharing import Scopes


def target(namespace: str, name: str) -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return Object(TARGETS if namespace else CLUSTER_TARGETS, json.dumps({"metadata": metadata}).encode())


def test_only_the_first_and_the_last_target_of_a_scope_change_anything() -> None:
    scopes = Scopes()
    everywhere, shop, more = target("", "eu"), target("shop", "eu"), target("shop", "us")
    assert not scopes.any("shop")
    assert scopes.note(None, shop)
    assert (scopes.any("shop"), scopes.any("other")) == (True, False)
    assert not scopes.note(shop, shop)
    assert not scopes.note(None, more)
    assert not scopes.note(shop, None)
    assert scopes.any("shop")
    assert scopes.note(more, None)
    assert not scopes.any("shop")
    assert scopes.note(None, everywhere)
    assert scopes.any("shop")
    assert scopes.note(everywhere, None)
    assert not scopes.any("other")
