from typing import Any

import pytest

from agent.model.source import accounts, advice, flaw

ACCOUNT = {"name": "cd", "namespace": "team"}
USER = "system:serviceaccount:other:web"


@pytest.mark.parametrize(
    ("spec", "namespaced", "field"),
    [
        ({}, True, "spec"),
        ({}, False, "spec"),
        ({"serviceAccount": {}}, False, "spec"),
        ({"serviceAccount": {"name": "cd"}}, False, "spec.serviceAccount.namespace"),
        ({"serviceAccount": {"namespace": "team"}, "userName": "u"}, False, "spec.serviceAccount.name"),
        ({"serviceAccount": ACCOUNT}, True, "spec"),
        ({"serviceAccountName": "cd"}, False, "spec"),
        ({"serviceAccountName": "cd"}, True, ""),
        ({"serviceAccount": ACCOUNT}, False, ""),
        ({"userName": "u"}, True, ""),
        ({"userName": "u"}, False, ""),
    ],
)
def test_a_source_names_somebody_and_a_service_account_whole(
    spec: dict[str, Any], namespaced: bool, field: str
) -> None:
    found = flaw(spec, namespaced=namespaced)
    assert (found.field if found else "") == field


@pytest.mark.parametrize(
    ("namespace", "spec", "found"),
    [
        ("team", {"serviceAccountName": "cd"}, [("team", "cd")]),
        ("team", {"serviceAccountName": "cd", "userName": USER}, [("team", "cd"), ("other", "web")]),
        ("team", {"userName": "system:serviceaccount:team:cd", "serviceAccountName": "cd"}, [("team", "cd")]),
        ("team", {"userName": "spiffe://cd"}, []),
        ("team", {"userName": "system:serviceaccount:team"}, []),
        ("team", {"serviceAccount": {"name": "cd", "namespace": "team"}}, []),
        ("", {"serviceAccount": {"name": "cd", "namespace": "team"}}, [("team", "cd")]),
        ("", {"serviceAccount": {"name": "cd"}, "userName": USER}, [("other", "web")]),
        ("", {"serviceAccountName": "cd"}, []),
        ("", {"serviceAccount": "cd", "userName": 7}, []),
        ("team", {"serviceAccountName": ["cd"]}, []),
    ],
)
def test_accounts_are_read_from_both_fields(namespace: str, spec: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert accounts(spec, namespace) == found


def test_the_user_of_the_account_of_all_pods_is_advised_against() -> None:
    assert advice({"userName": "system:serviceaccount:team:default"}, namespaced=True).startswith("spec.userName is")
    assert advice({"userName": USER, "serviceAccountName": "cd"}, namespaced=True) == ""
