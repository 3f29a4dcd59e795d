"""The mover's input: owners of pods, and replacements that count against limits."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from agent.api.kinds import PODS
from agent.base.clock import parse
from agent.kube.store import Object
from agent.moves.mover.decide import decide
from agent.moves.mover.facts import facts_of, owner_of, viewed
from agent.moves.mover.gather import Read, agreed
from agent.moves.mover.groups import UNCOUNTED_SECONDS, Arrivals
from agent.moves.mover.limits import is_waiting
from agent.moves.mover.owners import OwnerPods, owner
from agent.moves.mover.view import Discard
from agent.moves.mover.writer import QUOTA_SECONDS, REFUSED_SECONDS, Refusal

CREATED = "2026-11-24T12:00:00Z"


def pod(*references: dict[str, Any], node: str = "", **annotations: str) -> Object:
    metadata = {
        "name": "web-n",
        "namespace": "default",
        "uid": "n",
        "creationTimestamp": CREATED,
        "annotations": {f"multicluster/{key}": value for key, value in annotations.items()},
        "ownerReferences": list(references),
    }
    return Object(PODS, msgspec.json.encode({"metadata": metadata, "spec": {"nodeName": node}}))


def reference(version: str, kind: str, controller: bool = True) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "name": "web", "uid": "w", "controller": controller}


@pytest.mark.parametrize(
    ("version", "kind", "wanted"),
    [
        ("apps/v1", "StatefulSet", "StatefulSet"),
        ("batch/v1", "Job", "Job"),
        ("v1", "ReplicationController", "ReplicationController"),
        ("apps.kruise.io/v1beta1", "StatefulSet", "StatefulSet.apps.kruise.io"),
        ("batch.volcano.sh/v1alpha1", "Job", "Job.batch.volcano.sh"),
    ],
)
def test_a_kind_of_another_group_is_not_taken_for_that_of_kubernetes(version: str, kind: str, wanted: str) -> None:
    assert owner_of(pod(reference(version, kind))) == (wanted, "default", "web", "w")


def test_a_replacement_that_waits_to_be_adopted_belongs_to_what_is_to_adopt_it() -> None:
    assert owner_of(pod(reference("apps/v1", "ReplicaSet", controller=False))) == ("ReplicaSet", "default", "web", "w")


def test_a_replacement_whose_owner_was_deleted_without_its_pods_is_deleted() -> None:
    new = pod(replaces="o")
    view = viewed(new, facts_of(new), owner_uid=new.uid, cause=("", ""))
    (action,) = decide(owner("", None, None, OwnerPods()), [view]).actions
    assert isinstance(action, Discard)
    alone = pod()
    assert viewed(alone, facts_of(alone), owner_uid=alone.uid, cause=("", "")).owned


@pytest.mark.parametrize(("node", "seconds", "waits"), [("", 9, False), ("", 10, True), ("eu", 99, False)])
def test_one_that_has_no_node_at_once_may_have_one_in_a_moment(node: str, seconds: int, waits: bool) -> None:
    assert is_waiting(pod(node=node, replaces="o"), parse(CREATED) + timedelta(seconds=seconds)) is waits


def test_a_quota_is_asked_ever_more_rarely_and_what_does_not_pass_not_sooner() -> None:
    first = Refusal("exceeded quota", passes=True)
    later = Refusal("exceeded quota", passes=True, before=Refusal("exceeded quota", passes=True, before=first))
    assert (first.tries, later.tries) == (0, 2)
    assert first.until + 3 * QUOTA_SECONDS - 1 < later.until < first.until + REFUSED_SECONDS
    for _ in range(100):
        later = Refusal("exceeded quota", passes=True, before=later)
    assert later.until <= Refusal("refused", passes=False).until
    assert Refusal("exceeded quota", passes=True, before=Refusal("refused", passes=False)).tries == 0


def test_a_deployment_speaks_for_its_replica_sets_on_which_copies_of_what_it_said_stay() -> None:
    copy = {"kind": "ReplicaSet", "metadata": {"annotations": {"multicluster/fail-back": "auto"}}}
    deployment = {"kind": "Deployment", "metadata": {"annotations": {"a": "b"}}}
    assert Read(copy, deployment).annotations == ({"a": "b"},)
    assert Read(copy, None).annotations == ({"multicluster/fail-back": "auto"},)
    assert Read(copy, {"kind": "Rollout"}).annotations == ({"multicluster/fail-back": "auto"},)
    assert Read({"metadata": {}}, {"kind": "CronJob", "metadata": {}}).annotations == ({}, {})
    assert Read(None, None).annotations == ()


def test_what_one_pod_says_of_how_it_moves_is_not_said_of_the_others() -> None:
    never, evict, silent = (each.annotations for each in (pod(move="never"), pod(move="evict"), pod()))
    assert agreed([evict, evict]) == {"multicluster/move": "evict"}
    assert agreed([never, silent]) == agreed([silent, evict]) == agreed([silent]) == agreed([]) == {}


def test_a_pod_is_new_in_a_target_for_a_while_from_its_claim_and_again_from_when_it_has_a_node() -> None:
    found, waits, claimed, bound = Arrivals(), pod(), pod(claim="us"), pod(node="us", claim="us")
    found.note(None, waits, 0.0)
    assert found.at("us", 0.0) == []
    found.note(waits, claimed, 1.0)
    assert (found.at("us", 1.0), found.at("eu", 1.0)) == ([claimed.key], [])
    found.note(claimed, bound, 8.0)
    found.note(bound, pod(node="us", claim="us", other="changed"), 12.0)
    assert found.at("us", 8.0 + UNCOUNTED_SECONDS - 0.1) == [bound.key]
    assert found.at("us", 8.0 + UNCOUNTED_SECONDS) == []
    found.note(bound, pod(node="us"), 30.0)
    assert found.at("us", 30.0) == []
    found.note(pod(node="us"), pod(node="eu"), 31.0)
    found.note(pod(node="eu"), None, 32.0)
    assert found.at("eu", 32.0) == []
