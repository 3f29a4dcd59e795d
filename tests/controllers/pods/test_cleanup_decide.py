"""Finalizers of a proxy pod that no controller will remove."""

from agent.api.names import FINALIZER_V010
from agent.pods.orphan_finalizers.decide import OLD_SECONDS, Known, Removal, decide

C1 = "multicluster.admiralty.io/default-c1"
C2 = "multicluster.admiralty.io/default-c2"


def verdict(finalizers: list[str], *known: Known) -> Removal:
    return decide(finalizers, {target.finalizer: target for target in known})


def test_finalizers_of_targets_that_exist_stay() -> None:
    assert verdict([C1, C2], Known(C1), Known(C2)) == Removal((), None)


def test_finalizers_of_targets_that_are_no_more_go() -> None:
    assert verdict([C1, C2], Known(C2)) == Removal((C1,), None)


def test_the_finalizer_of_version_0_10_goes() -> None:
    assert verdict([FINALIZER_V010, C1], Known(C1)) == Removal((FINALIZER_V010,), None)


def test_the_finalizer_of_version_0_10_stays_while_it_is_all_that_holds_a_pod_for_its_delegate() -> None:
    assert decide([FINALIZER_V010], {}, needs_old=True) == Removal((), OLD_SECONDS)
    assert decide([FINALIZER_V010, C2], {C2: Known(C2, free_in=1.0)}, needs_old=True) == Removal((), 1.0)


def test_finalizers_of_others_stay() -> None:
    assert verdict(["foregroundDeletion", "example.com/x", "multicluster/drain"]) == Removal((), None)


def test_a_target_being_removed_that_cannot_be_reached_holds_its_pods_for_a_while() -> None:
    assert verdict([C1, C2], Known(C1, free_in=4.0), Known(C2, free_in=7.0)) == Removal((), 4.0)


def test_a_target_being_removed_that_cannot_be_reached_frees_its_pods_then() -> None:
    assert verdict([C1, C2], Known(C1, free_in=0.0), Known(C2, free_in=7.0)) == Removal((C1,), 7.0)
