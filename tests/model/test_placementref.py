import re

import pytest

from agent.model.placementref import flaws


@pytest.mark.parametrize(
    "annotations",
    [
        None,
        {},
        {"multicluster/placement": "web"},
        {"multicluster.admiralty.io/placement": "web.v1", "multicluster/placement": "No Name"},
        {"multicluster/placement": "", "multicluster/placement-group": ""},
        {"multicluster/placement": "web", "multicluster/placement-group": "Canary_1"},
    ],
    ids=str,
)
def test_names_of_placements_and_groups_are_taken_and_nothing_frees_a_pod(annotations: dict[str, str] | None) -> None:
    assert list(flaws(annotations)) == []


@pytest.mark.parametrize(
    ("annotations", "field", "remedy"),
    [
        ({"multicluster/placement": "shop/web"}, "multicluster/placement", "in this namespace"),
        ({"multicluster/placement": "Web"}, "multicluster/placement", "lower-case"),
        ({"multicluster/placement": "w" * 254}, "multicluster/placement", "can be no Placement's name"),
        (
            {"multicluster.admiralty.io/placement": "a b"},
            "multicluster.admiralty.io/placement",
            "nothing to go without",
        ),
        ({"multicluster/placement-group": "a b"}, "multicluster/placement-group", "groupName.*remove it"),
    ],
)
def test_what_can_name_none_is_told_with_field_and_remedy(annotations: dict[str, str], field: str, remedy: str) -> None:
    ((where, reason),) = flaws(annotations)
    assert where == f"metadata.annotations[{field}]"
    assert re.search(remedy, reason)
