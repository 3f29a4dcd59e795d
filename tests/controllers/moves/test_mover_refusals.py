"""Writes of the mover that a policy or a disruption budget refuses: reported, and retried after growing pauses."""

import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from agent.api.conditions import condition_of
from agent.api.kinds import EVENTS, PODS
from agent.api.names import moves
from agent.clusters.deps import Deps
from agent.kube.config import load
from agent.kube.store import Object
from agent.model.proxypod import proxy_pod
from agent.moves.mover.actions import Actions, _about
from agent.moves.mover.controller import Mover
from agent.moves.mover.decide import decide
from agent.moves.mover.facts import facts_of, viewed
from agent.moves.mover.gather import Read
from agent.moves.mover.owners import OwnerPods, owner
from agent.moves.mover.pauses import LONGEST_SECONDS, Pauses
from agent.moves.mover.view import Adopt, Evict, Owner, Pod, Tell
from hack.lab.sandbox import Cluster
from tests.controllers.pair import Pair
from tests.controllers.proxies import elected
from tests.controllers.starting import running
from tests.controllers.target_links import kubeconfig
from tests.kube.relay import Relay
from tests.waiting import until

Raw = dict[str, Any]

WAITS = "0/2 targets are available: eu: insufficient cpu on every node (largest free 300m), us: limit cpu of the target"


def test_pauses_after_refusals_grow_up_to_a_minute_for_each_subject_and_end_when_it_goes_well() -> None:
    pauses = Pauses()
    found = [pauses.begin("w", "end") for _ in range(12)]
    assert found[0] <= 5.0 < found[2] <= 20.0
    assert LONGEST_SECONDS / 2 <= found[-1] <= LONGEST_SECONDS
    assert pauses.left("w", "end") > 0
    assert pauses.left("w", "another") == pauses.left("another", "end") == 0
    pauses.end("w", "end")
    assert pauses.left("w", "end") == 0
    assert pauses.begin("w", "end") <= 5.0


def test_the_refusal_of_a_budget_holds_no_lost_pod() -> None:
    """The deletion of a lost pod does not depend on a budget."""
    deps: Any = SimpleNamespace(proxies=SimpleNamespace(informer=SimpleNamespace(store=None)), recorder=None)
    rest: Any = None
    actions, key = Actions(deps, rest, rest, rest, rest, rest), ("StatefulSet", "default", "db", "s")
    healthy, lost = Evict(Pod("db-0", "a", cause="Retire")), Evict(Pod("db-1", "b", cause="Lost", answers=False))
    actions._pauses.begin("s", _about(healthy))
    due, left = actions.due(key, [healthy, lost])
    assert due == [lost]
    assert 0 < left <= 5


def test_a_pod_whose_replacement_has_no_node_says_why_in_the_words_of_the_scheduler_without_live_figures() -> None:
    conditions = [{"type": "PodScheduled", "status": "False", "message": f"{WAITS} reached (3 of 4)"}]
    metadata = {"name": "web-n", "namespace": "default", "uid": "n", "annotations": {moves.ANNOTATION_REPLACES: "o"}}
    new = Object(PODS, msgspec.json.encode({"metadata": metadata, "status": {"conditions": conditions}}))
    view = viewed(new, facts_of(new), owner_uid="w", cause=("", ""), waits=True)
    old = Pod("web-o", "o", cause="Retire")
    (told,) = (each for each in decide(Owner("ReplicaSet", "web", "surge"), [old, view]).actions)
    assert isinstance(told, Tell)
    assert (told.reason, told.warns) == ("NoRoom", True)
    said = WAITS.replace(" (largest free 300m)", "")
    assert told.message.endswith(f"its replacement web-n has no node yet: {said} reached")


@pytest.mark.cluster
async def test_a_replacement_that_may_not_be_adopted_leaves_the_old_pod_as_it_was(pair: Pair, tmp_path: Path) -> None:
    async with (
        Relay.started(load(str(pair.clusters[0].kubeconfig))) as relay,
        running(_behind(pair.clusters[0], relay, tmp_path), moves=True) as deps,
    ):
        mover = Mover(deps)
        action = await _adoption(pair, deps)
        relay.answer = _refuse_patches_of_new
        template = {"metadata": {"labels": {"app": "web"}}, "spec": {}}
        raw = {"metadata": {"name": "web", "namespace": pair.namespace, "uid": "w"}, "spec": {"template": template}}
        key = ("ReplicaSet", pair.namespace, "web", "w")
        assert mover._actions.due(key, [action]) == ([action], 0.0)
        made_by = owner("ReplicaSet", raw, None, OwnerPods())
        assert await mover._actions.carry_out(key, made_by, Read(raw, None), [action])
        todo, left = mover._actions.due(key, [action])
        assert not todo
        assert left > 0
        found = await pair.here.get(PODS, "old", pair.namespace)
        assert moves.ANNOTATION_REPLACED_BY not in found["metadata"]["annotations"]
        placed = condition_of(found, moves.CONDITION) or {}
        assert placed.get("reason") == "Held"
        assert "is refused: no" in placed["message"]

        async def is_reported() -> bool:
            events = await pair.here.list(EVENTS, pair.namespace)
            return any(each["reason"] == "MoveWaiting" for each in events)

        await until(is_reported)


async def _adoption(pair: Pair, deps: Deps) -> Adopt:
    """Create a pod and its replacement."""
    uids = {}
    for name, marks in (("old", {moves.ANNOTATION_REPLACED_BY: "n"}), ("new", {})):
        pod = proxy_pod(elected(name, pair.namespace), [])
        pod["metadata"]["annotations"] |= marks
        uids[name] = (await pair.here.create(PODS, pod))["metadata"]["uid"]
    await until(lambda: len(deps.proxies.in_namespace(pair.namespace)) == 2)
    old = Pod("old", uids["old"], cause="Retire", replaced_by="n")
    return Adopt(Pod("new", uids["new"], owned=False, replaces=uids["old"]), old)


async def _refuse_patches_of_new(method: str, path: str) -> Raw | None:
    """Answer as an API server does whose admission policy refuses the patch."""
    refused = method == "PATCH" and path.endswith("/pods/new")
    return {"kind": "Status", "code": 422, "reason": "Invalid", "message": "no"} if refused else None


def _behind(cluster: Cluster, relay: Relay, directory: Path) -> Cluster:
    relayed = copy.copy(cluster)
    relayed.kubeconfig = directory / "relayed"
    relayed.kubeconfig.write_text(kubeconfig(cluster, server=relay.connection.server))
    return relayed
