from typing import Any

import pytest

from agent.model.source import flaw

ACCOUNT = {"name": "cd", "namespace": "team"}


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
