"""Annotations of a namespace that control the objects copied to targets."""

from collections.abc import Callable

import pytest

from agent.model.namespaces import accounts_follow, refuses_to_share, shares_services

ELECTS = {"multicluster/elect-by-default": "true"}


@pytest.mark.parametrize(
    ("goes", "suffix"), [(accounts_follow, "follow-service-account"), (shares_services, "share-services")]
)
@pytest.mark.parametrize("prefix", ["multicluster/", "multicluster.admiralty.io/"])
def test_it_goes_by_default_where_all_pods_are_elected_and_else_where_that_is_asked_for(
    goes: Callable[[dict[str, str] | None], bool], suffix: str, prefix: str
) -> None:
    assert goes(ELECTS)
    assert goes({prefix + suffix: "true"})
    assert not goes({**ELECTS, prefix + suffix: "false"})
    assert not goes({**ELECTS, prefix + suffix: "maybe"})
    assert not goes({"multicluster/elect-by-default": "false"})
    assert not goes({})
    assert not goes(None)


def test_only_a_word_of_its_own_stops_sharing_at_once() -> None:
    assert refuses_to_share({"multicluster/share-services": "false"})
    assert not refuses_to_share({"multicluster/elect-by-default": "false"})
