from typing import Any

import msgspec

from agent.api.kinds import CLUSTER_TARGETS, TARGET_KINDS, TARGETS
from agent.kube.both_scopes import EitherScope
from agent.kube.informer import Informer
from agent.kube.store import Object


def either(*keys: tuple[str, str]) -> EitherScope:
    """Return Targets and ClusterTargets as if they had been listed."""
    client: Any = None
    made = EitherScope(client, lambda kind: Informer(client, kind), TARGET_KINDS)
    for namespace, name in keys:
        raw = msgspec.json.encode({"metadata": {"namespace": namespace, "name": name}})
        made.informers[0 if namespace else 1].store.put(Object(TARGET_KINDS.of(namespace), raw))
    return made


def test_the_kind_follows_from_the_namespace() -> None:
    assert (TARGET_KINDS.of("team"), TARGET_KINDS.of("")) == (TARGETS, CLUSTER_TARGETS)


def test_an_object_is_found_by_its_key_in_either_scope() -> None:
    found = either(("team", "eu"), ("", "eu"))
    for key in (("team", "eu"), ("", "eu")):
        obj = found.get(key)
        assert obj is not None
        assert obj.key == key
    assert found.get(("other", "eu")) is None
    assert {obj.key for obj in found} == {("team", "eu"), ("", "eu")}


def test_a_namespace_is_served_by_its_own_and_by_those_of_the_cluster() -> None:
    found = either(("team", "eu"), ("other", "us"), ("", "ap"))
    assert {obj.key for obj in found.serving("team")} == {("team", "eu"), ("", "ap")}


def test_both_kinds_have_to_be_listed() -> None:
    found = either()
    for informer in found.informers:
        assert not found.synced
        informer.synced.set()
    assert found.synced
