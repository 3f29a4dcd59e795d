"""Location of a pod: tables of finalizers, claims and assigned targets."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from agent.api import names
from agent.model import podstate

EU, US = names.finalizer("default", "eu"), names.finalizer("default", "us")
OTHER = "example.com/hold"
V010 = names.FINALIZER_V010


@dataclass
class Known:
    claim: str = ""
    claim_uid: str = ""
    claim_renewed: str = ""


@dataclass
class Pod:
    node_name: str = ""
    phase: str = ""
    finalizers: list[str] = field(default_factory=list)
    hot_annotations: Known = field(default_factory=Known)


@pytest.mark.parametrize(
    ("finalizer", "of_a_target", "of_all", "ours"),
    [
        (EU, True, False, True),
        (V010, True, True, True),
        (names.FINALIZER_DRAIN, False, False, True),
        (OTHER, False, False, False),
        ("multicluster.admiralty.io", False, False, False),
        ("foregroundDeletion", False, False, False),
    ],
)
def test_which_finalizers_are_ours(finalizer: str, of_a_target: bool, of_all: bool, ours: bool) -> None:
    assert podstate.is_target_finalizer(finalizer) is of_a_target
    assert podstate.is_for_all_targets(finalizer) is of_all
    assert podstate.is_our_finalizer(finalizer) is ours


@pytest.mark.parametrize(
    ("finalizers", "targets", "others"),
    [
        (None, [], []),
        ([], [], []),
        ([OTHER], [], [OTHER]),
        ([EU, OTHER, V010], [EU, V010], [OTHER]),
    ],
)
def test_finalizers_by_whom_they_stand_for(finalizers: Any, targets: list[str], others: list[str]) -> None:
    assert podstate.target_finalizers(finalizers) == targets
    assert podstate.other_finalizers(finalizers) == others
    assert podstate.is_held(finalizers) is bool(targets)


def test_some_finalizers_are_taken_off_whosever_they_are() -> None:
    assert podstate.without([EU, OTHER, US], {EU}) == [OTHER, US]


@pytest.mark.parametrize(
    ("finalizers", "held", "left"),
    [
        (None, (), []),
        ([EU, OTHER, US], (), [OTHER]),
        ([EU, OTHER, US], {US}, [OTHER, US]),
        ([OTHER], {US}, [OTHER]),
    ],
)
def test_release_leaves_what_still_holds_and_adds_nothing(finalizers: Any, held: Any, left: list[str]) -> None:
    assert podstate.released(finalizers, held) == left


@pytest.mark.parametrize(
    ("finalizers", "target", "held", "left"),
    [
        (None, EU, (), [EU]),
        ([EU, OTHER, US], EU, (), [OTHER, EU]),
        ([EU, OTHER], US, {EU}, [EU, OTHER, US]),
        ([EU, OTHER], EU, {EU}, [EU, OTHER]),
    ],
)
def test_a_claimed_pod_is_held_by_one_target(finalizers: Any, target: str, held: Any, left: list[str]) -> None:
    assert podstate.held_by(finalizers, target, held) == left


@pytest.mark.parametrize(
    ("pod", "home", "kept", "occupied"),
    [
        (Pod(), "", "", ""),
        (Pod(finalizers=[EU]), "", "", ""),
        (Pod(hot_annotations=Known("eu")), "eu", "", "eu"),
        (Pod(hot_annotations=Known("eu"), finalizers=[EU]), "eu", "eu", "eu"),
        (Pod(hot_annotations=Known("eu"), finalizers=[OTHER]), "eu", "", "eu"),
        (Pod(node_name="us", hot_annotations=Known("eu"), finalizers=[EU]), "us", "us", "us"),
        (Pod(node_name="us"), "us", "us", "us"),
        (Pod(node_name="us", phase="Running"), "us", "us", "us"),
        (Pod(node_name="us", phase="Succeeded"), "us", "us", ""),
        (Pod(hot_annotations=Known("eu"), finalizers=[EU], phase="Failed"), "eu", "eu", ""),
    ],
)
def test_the_home_is_where_a_pod_is_bound_or_else_claimed(pod: Pod, home: str, kept: str, occupied: str) -> None:
    assert podstate.home_node(pod) == home
    assert podstate.kept_home_node(pod) == kept
    assert podstate.occupied_node(pod) == occupied


@pytest.mark.parametrize(
    ("pod", "connected", "home"),
    [
        (Pod(node_name="eu", finalizers=[US]), EU, EU),
        (Pod(node_name="eu", finalizers=[OTHER, EU]), None, EU),
        (Pod(hot_annotations=Known("eu"), finalizers=[EU]), None, EU),
        (Pod(finalizers=[EU]), None, ""),
        (Pod(node_name="eu", finalizers=[EU, US]), None, ""),
        (Pod(node_name="eu", finalizers=[OTHER]), None, ""),
    ],
)
def test_the_finalizer_of_the_home(pod: Pod, connected: str | None, home: str) -> None:
    assert podstate.home_finalizer(pod, connected) == home


@pytest.mark.parametrize(
    ("known", "mode", "named", "another"),
    [
        (Known(), "", False, False),
        (Known("eu"), "ranked", True, True),
        (Known("eu", "uid"), "reserve", True, False),
        (Known("us", "uid"), "reserve", False, False),
    ],
)
def test_a_claim_names_one_chaperon_in_mode_reserve_and_any_in_mode_ranked(
    known: Known, mode: str, named: bool, another: bool
) -> None:
    pod = Pod(hot_annotations=known)
    assert (podstate.claimed_node(pod), podstate.claimed_chaperon(pod)) == (known.claim, known.claim_uid)
    assert podstate.claim_mode(pod) == mode
    assert podstate.claims_chaperon(pod, "eu", "uid") is named
    assert podstate.claims_chaperon(pod, "eu", "other") is another
    assert podstate.claims_other_chaperon(pod, "other") is bool(known.claim_uid)
    assert not podstate.claims_other_chaperon(pod, "uid")


@pytest.mark.parametrize(
    ("claim", "held", "connected", "stands"),
    [
        ("eu", True, True, True),
        ("eu", False, True, True),
        ("eu", True, False, True),
        ("eu", False, False, False),
        ("", True, True, False),
    ],
)
def test_a_claim_stands_until_its_target_is_no_more(claim: str, held: bool, connected: bool, stands: bool) -> None:
    assert podstate.claim_stands(claim, held=held, connected=connected) is stands


def test_a_claim_that_is_renewed_is_written_again() -> None:
    first, renewed = Pod(hot_annotations=Known("eu")), Pod(hot_annotations=Known("eu", claim_renewed="5f"))
    assert podstate.claim_as_written(first) == ("eu", "")
    assert podstate.claim_as_written(first) != podstate.claim_as_written(renewed)


def test_annotations_tell_of_a_claim() -> None:
    assert podstate.is_claimed({names.ANNOTATION_CLAIM: "eu"})
    assert not podstate.is_claimed({names.ANNOTATION_CLAIM_UID: "uid"})
