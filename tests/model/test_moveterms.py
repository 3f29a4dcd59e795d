"""Settings of pods, owners and namespaces for moving pods."""

import pytest

from agent.model.moveterms import flaws, move_of


def test_the_first_that_can_be_read_counts() -> None:
    assert move_of([None, {}, {"multicluster/move": "evict"}]) == "evict"
    assert move_of([{"multicluster/move": "no"}, {"multicluster.admiralty.io/move": "never"}]) == "never"
    assert move_of([{"multicluster/move": "surge"}, {"multicluster/move": "never"}]) == "surge"
    assert move_of([{}, None]) == ""


def test_what_can_be_read_is_well() -> None:
    said = {"move": "never", "failover-after": "30s", "fail-back": "auto", "fence": "lease", "shutdown-delay": "0"}
    assert list(flaws({f"multicluster/{key}": value for key, value in said.items()})) == []
    assert list(flaws(None)) == []
    # Only Targets have the setting `retire`.
    assert list(flaws({"multicluster/retire": "perhaps"})) == []


@pytest.mark.parametrize("prefix", ["multicluster/", "multicluster.admiralty.io/"])
def test_what_cannot_is_told_with_field_and_remedy(prefix: str) -> None:
    said = {"move": "x" * 100, "failover-after": "1s", "fail-back": "", "fence": "yes", "shutdown-delay": "301"}
    found = dict(flaws({prefix + key: value for key, value in said.items()}))
    assert found.keys() == {f"metadata.annotations[{prefix}{key}]" for key in said}
    assert all(reason.endswith("correct it, or remove it") for reason in found.values())
    assert max(map(len, found.values())) < 150
