import json
from typing import Any

from agent.api.kinds import PERSISTENT_VOLUMES
from agent.dependencies.placeholder_volumes.controller import claims_of
from agent.dependencies.placeholder_volumes.decide import ClaimAndVolumes, Grow, Make, Remove, Replace, decide
from agent.kube.store import Object
from agent.model.placeholder_volume import name_of, volume_for
from tests.model.test_placeholder_volume import EU, claim, there

Raw = dict[str, Any]


def bound(capacity: str = "5Gi") -> Raw:
    found = claim("Bound")
    found["spec"]["volumeName"] = name_of(found)
    found["status"]["capacity"] = {"storage": capacity}
    return found


def view(
    claim: Raw | None, copy: Raw | None, *standing: Raw, makes: bool = True, target: tuple[str, str] = EU
) -> ClaimAndVolumes:
    return ClaimAndVolumes(claim, copy, target, standing, makes)


OWN = volume_for(claim(), there(), EU)


def test_it_is_made_once_the_claim_there_is_bound() -> None:
    assert decide(view(claim(), there())) == [Make(OWN)]
    assert decide(view(claim(), None)) == []
    assert decide(view(claim(), claim("Pending"))) == []
    assert decide(view(claim(), claim("Bound"))) == [], "it does not tell how large its volume is"
    assert decide(view(claim(), there(), OWN)) == []


def test_none_is_made_that_is_smaller_than_what_its_claim_asks_for() -> None:
    large = claim(resources={"requests": {"storage": "10Gi"}})
    assert decide(view(large, there("5Gi"))) == [], "Kubernetes would never bind the claim to it"
    assert decide(view(large, there("10Gi"))) == [Make(volume_for(large, there("10Gi"), EU))]
    lost = claim("Lost", volumeName=name_of(large), resources=large["spec"]["resources"])
    assert decide(view(lost, there("5Gi"))) == [Make(OWN)], "it was bound before it was to grow"


def test_it_is_made_only_where_an_administrator_wants_it_and_nobody_else_makes_one() -> None:
    assert decide(view(claim(), there(), makes=False)) == []
    assert decide(view(claim(volumeName="theirs"), there())) == []


def test_it_goes_with_its_claim() -> None:
    assert decide(view(None, None, OWN)) == [Remove(OWN)]
    assert decide(view(None, None, OWN, makes=False)) == [Remove(OWN)]


def test_one_that_is_being_restored_from_a_backup_is_left_alone() -> None:
    restored = {**OWN, "spec": {**OWN["spec"], "claimRef": {"namespace": "team", "name": "data"}}}
    assert decide(view(None, None, restored)) == []
    assert decide(view(bound(), None, restored)) == []


def test_a_claim_that_was_made_again_gets_its_own() -> None:
    again = claim()
    again["metadata"]["uid"] = "V"
    assert decide(view(again, there(), OWN)) == [Remove(OWN), Make(volume_for(again, there(), EU))]


def test_it_stays_while_its_target_is_away() -> None:
    assert decide(view(bound(), None, OWN)) == []


def test_another_takes_its_place_when_the_data_are_in_another_target() -> None:
    us = ("team", "us")
    assert decide(view(bound(), there(), OWN, target=us)) == [Replace(OWN, volume_for(claim(), there(), us))]


def test_it_grows_with_the_volume_there_and_never_shrinks() -> None:
    assert decide(view(bound(), there("5Gi"), OWN)) == []
    assert decide(view(bound(), there("9Gi"), OWN)) == [Grow(OWN, "9Gi")]
    assert decide(view(bound(), there("1Gi"), OWN)) == []
    grown = volume_for(claim(), there("9Gi"), EU)
    assert decide(view(bound("5Gi"), there("9Gi"), grown)) == [Grow(grown, "9Gi")]
    assert decide(view(claim(), there("9Gi"), OWN)) == []


def test_a_capacity_that_cannot_be_read_changes_nothing() -> None:
    assert decide(view(bound("much"), there("5Gi"), OWN)) == []


def test_a_volume_that_is_not_ours_or_names_no_claim_stands_for_none() -> None:
    def kept(**spec: Any) -> Object:
        return Object(PERSISTENT_VOLUMES, json.dumps({**OWN, "spec": {**OWN["spec"], **spec}}).encode())

    assert claims_of(kept()) == (("team", "data"),)
    assert claims_of(kept(csi=None, nfs={"server": "files", "path": "/"})) == ()
    assert claims_of(kept(claimRef=None)) == ()


def test_the_volume_of_a_claim_there_that_is_being_deleted_is_nothing_to_stand_for() -> None:
    going = there()
    going["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    assert decide(view(claim(), going)) == []
    assert decide(view(bound(), going, OWN)) == [], "the pod that uses it runs on"
