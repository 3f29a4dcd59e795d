"""`flotilla move` and `flotilla moves` on pods, owners and targets; without clusters."""

import re
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import typer

from agent.api.kinds import DEPLOYMENTS, NAMESPACES, PODS, STATEFUL_SETS
from agent.cli.move import _asked as asked
from agent.cli.moving.asking import Move, written
from agent.cli.moving.fates import Fate, Verdict, fates_table, verdict_of, with_targets
from agent.cli.moving.objects import InvalidName, Named, named, object_names, said, value_of
from agent.cli.moving.world import Meant, homes_of
from agent.kube.store import Object
from agent.moves.mover.owners import OwnerPods, owner
from agent.moves.mover.view import Pod, Together
from agent.moves.mover.whole_groups import Member, together
from agent.ranking.rank import Ranking
from agent.ranking.rejection import Rejection
from tests.cli.moving import EU, NOW, SINCE, US, made, pod, target
from tests.ranking.pods_and_targets import target_info

Raw = dict[str, Any]


# Arguments -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["deploy/web", "deployment/web", "Deployments/web", "deployment.apps/web"])
def test_a_kind_is_written_as_kubectl_has_it(text: str) -> None:
    assert named(text) == Named(DEPLOYMENTS, "web")


def test_namespaces_and_pods_are_meant_as_well() -> None:
    assert (named("ns/shop").kind, named("pod/web-1").kind, named("sts/db").kind) == (NAMESPACES, PODS, STATEFUL_SETS)


@pytest.mark.parametrize("text", ["web", "deployment", "deployment/", "deployment/a/b", "service/web", "/web"])
def test_what_names_nothing_is_told_what_does(text: str) -> None:
    with pytest.raises(InvalidName, match=r"write (KIND|deployment)/NAME"):
        named(text)


@pytest.mark.parametrize(
    ("to", "options", "says"),
    [
        ("", {}, "say where to by --to, or --anywhere"),
        ("us", {"anywhere": True}, "say where to by --to, or --anywhere"),
        ("us eu", {}, "is no name of a target"),
        ("us,!eu", {}, "both names targets and excludes some"),
        ("us", {"wait": True, "dry_run": True}, "--dry-run changes nothing"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(to: str, options: dict[str, bool], says: str) -> None:
    with pytest.raises(typer.BadParameter, match=re.escape(says)):
        asked("deploy/web", to, **{"anywhere": False, "wait": False, "dry_run": False, **options})


def test_what_is_written_and_what_was_there_is_told() -> None:
    move = asked("deploy/web", " us  >eu ", anywhere=False, wait=False, dry_run=False)
    assert move == Move(Named(DEPLOYMENTS, "web"), "us >eu")
    assert written(move, None) == "multicluster/targets of Deployment web is 'us >eu' (was not there)"
    assert written(move, "us >eu").endswith("already")
    assert written(Move(move.what, ""), "us") == "Deployment web may be in any target (was 'us')"


def test_shells_offer_kinds_first() -> None:
    nowhere = typer.Context(typer.core.TyperCommand("move"))
    assert object_names(nowhere, "st") == ["statefulset/"]
    assert object_names(nowhere, "service/") == []


def test_one_key_is_written_and_the_long_one_counts_before() -> None:
    both = {"multicluster.admiralty.io/targets": "eu", "multicluster/targets": "ap", "other": "x"}
    assert said(both, "us") == {"multicluster/targets": "us", "other": "x"}
    assert value_of(made(DEPLOYMENTS, "web", annotations=both)) == "eu"
    assert value_of(made(DEPLOYMENTS, "web")) is None


# Outcome for a pod ---------------------------------------------------------------------------------------------------


REPLICA_SET: Raw = {"metadata": {"name": "web"}, "spec": {"replicas": 3}}
PAUSED: Raw = {"kind": "Deployment", "metadata": {}, "spec": {"paused": True}}
MISPLACED = Pod("web-1", "u-1", cause="Targets", told="Misplaced: words of before")


@pytest.mark.parametrize(
    ("made_by", "view", "moves", "reason", "how", "final"),
    [
        (owner("ReplicaSet", REPLICA_SET, None, OwnerPods()), MISPLACED, True, "", "its replacement first", False),
        (
            owner("StatefulSet", REPLICA_SET, None, OwnerPods()),
            MISPLACED,
            True,
            "",
            "evicted: a StatefulSet has one pod of a name",
            False,
        ),
        (owner("Job", REPLICA_SET, None, OwnerPods()), MISPLACED, False, "Held", "the pods of a Job finish", True),
        (owner("", None, None, OwnerPods()), MISPLACED, False, "Held", "nothing makes it again", True),
        (owner("ReplicaSet", REPLICA_SET, PAUSED, OwnerPods()), MISPLACED, False, "Held", "is paused", False),
        (
            owner("ReplicaSet", REPLICA_SET, None, OwnerPods()),
            Pod("w", "u", cause="Targets", data=True, stays="the volume of its claim x is there"),
            False,
            "DataElsewhere",
            "the volume of its claim x is there",
            True,
        ),
        (
            owner("ReplicaSet", REPLICA_SET, None, OwnerPods()),
            Pod("w", "u", cause="Targets", answers=False),
            False,
            "Held",
            "its target does not answer",
            False,
        ),
        (
            owner("StatefulSet", REPLICA_SET, None, OwnerPods()),
            Pod("w", "u", cause="Lost", answers=False),
            False,
            "IdentityMayRun",
            "it may still run there",
            True,
        ),
        (owner("Job", REPLICA_SET, None, OwnerPods()), Pod("w", "u"), False, "Placed", "it is where it may be", False),
        (
            owner("Job", REPLICA_SET, None, OwnerPods()),
            Pod("w", "u", placed=False),
            True,
            "",
            "it has no target yet",
            False,
        ),
    ],
)
def test_what_becomes_of_a_pod_is_what_the_mover_would_do(
    made_by: Any, view: Pod, moves: bool, reason: str, how: str, final: bool
) -> None:
    found = verdict_of(made_by, view, replaced=False)
    assert (found.moves, found.reason, found.final) == (moves, reason, final)
    assert how in found.how
    assert not found.how.startswith("so; ")


def test_a_pod_that_moves_already_is_not_begun_again() -> None:
    made_by = owner("ReplicaSet", REPLICA_SET, None, OwnerPods())
    for found in (verdict_of(made_by, MISPLACED, replaced=True), verdict_of(made_by, MISPLACED, replaced=False)):
        assert found.moves
    assert verdict_of(made_by, MISPLACED, replaced=True).how == "it moves already"


GROUP = Member("db-0", "StatefulSet", EU, "Targets", move="evict", size="1", on_failure="restart")


@pytest.mark.parametrize(
    ("said", "moves", "how", "final"),
    [
        (GROUP, True, "its group starts again as a whole, once there is room for all of it", False),
        (replace(GROUP, on_failure=""), False, "not so of pod db-0", True),
        (replace(GROUP, move=""), False, "not so of pod db-0", True),
        (replace(GROUP, size="many"), False, "do not agree", True),
        (replace(GROUP, claim="data"), False, "the volume of claim data of pod db-0 is there", True),
        (replace(GROUP, cause="Lost", answers=False), False, "may still run", True),
        (replace(GROUP, answers=False), False, "does not answer", False),
        (replace(GROUP, node="", deleting=False, cause=""), True, "its group starts again already", False),
    ],
)
def test_a_pod_of_a_group_goes_where_the_whole_group_may(said: Member, moves: bool, how: str, final: bool) -> None:
    view = replace(MISPLACED, together=together("a", [said], lambda: ""))
    for options in (OwnerPods("evict"), OwnerPods()):
        found = verdict_of(owner("StatefulSet", REPLICA_SET, None, options), view, replaced=False)
        assert (found.moves, found.final) == (moves, final)
        assert how in found.how
    alone = verdict_of(
        owner("ReplicaSet", REPLICA_SET, None, OwnerPods()), replace(view, together=Together()), replaced=False
    )
    assert alone == Verdict(moves=False, reason="Held", how="the pods of its group are not replaced one by one")


def test_it_goes_nowhere_where_no_target_may_take_it() -> None:
    verdict = verdict_of(owner("ReplicaSet", REPLICA_SET, None, OwnerPods()), MISPLACED, replaced=False)
    us = target_info("us")
    assert with_targets(verdict, Ranking((us,), 1, ())) == (verdict, ("us",))
    full, to = with_targets(verdict, Ranking((), 0, ((us, Rejection("Cordoned", "it is cordoned")),)))
    assert (full.moves, full.reason, to) == (False, "NoRoom", ())
    assert full.how == "its replacement first, but 0/1 targets are available: us: it is cordoned"


def test_fates_are_told_in_columns() -> None:
    fate = Fate("default", "web-1", "u", "eu", ("us", "ap"), moves=True, reason="", how="evicted: why", final=False)
    stays = Fate("default", "job", "u", "", (), moves=False, reason="Held", how="why", final=True)
    heads, rows = fates_table([fate, stays], everywhere=False)
    assert (len(heads), rows) == (
        5,
        [["web-1", "eu", "us, ap", "yes", "evicted: why"], ["job", "-", "-", "no", "Held: why"]],
    )
    assert fates_table([fate], everywhere=True)[1][0][0] == "default"


def test_a_move_bears_on_what_hears_the_object() -> None:
    web, elsewhere = made(DEPLOYMENTS, "web"), pod("x")
    shop = Object(NAMESPACES, msgspec.json.encode({"metadata": {"name": "default", "uid": "n"}}))
    assert Meant(web, "us").concerns(elsewhere, [web])
    assert not Meant(web, "us").concerns(elsewhere, [])
    assert Meant(elsewhere, "us").concerns(elsewhere, [])
    assert Meant(shop, "us").concerns(elsewhere, [])
    assert Meant(retiring=EU).concerns(elsewhere, [])
    assert not Meant(retiring=US).concerns(elsewhere, [])


def test_a_target_that_says_nothing_of_answers_is_not_one_that_answers() -> None:
    reachable = {"conditions": [{"type": "Reachable", "status": "True"}]}
    found = homes_of([target("eu", reachable, **{"multicluster/retire": "true"}), target("us")])
    assert (found[EU].answers, found[EU].standing.retiring, found[US].answers) == (True, True, False)


LOST: Raw = {
    "conditions": [
        {"type": "Reachable", "status": "False", "lastTransitionTime": SINCE},
        {"type": "Lost", "status": "True"},
    ]
}
READY: Raw = {"conditions": [*LOST["conditions"], {"type": "Ready", "status": "True"}]}
DECLARED = {"multicluster/lost": "true"}


@pytest.mark.parametrize(
    ("status", "said", "kept", "moves", "how"),
    [
        (LOST, {}, "", False, "certify that it does not"),
        (LOST, {}, "10", True, "evicted"),
        (LOST, {}, "90", False, "its fence will have stopped it in 60 s"),
        (LOST, DECLARED, "", True, "evicted"),
        (READY, DECLARED, "", False, "certify"),
    ],
    ids=["not sure", "its fence has passed", "it has not yet", "certified", "certified, and ready until now"],
)
def test_a_pod_that_must_not_run_twice_goes_once_its_fence_or_a_person_says_so(
    status: Raw, said: dict[str, str], kept: str, moves: bool, how: str
) -> None:
    home = homes_of([target("eu", status, **said)])[EU]
    certified, left = home.certified, home.fence(pod("db-0", fence_kept=kept), 30.0, NOW)
    view = Pod("db-0", "u", cause="Lost", answers=home.answers, certified=certified, fence=left)
    found = verdict_of(owner("StatefulSet", REPLICA_SET, None, OwnerPods()), view, replaced=False)
    assert (found.moves, found.reason) == (moves, "" if moves else "IdentityMayRun")
    assert how in found.how
