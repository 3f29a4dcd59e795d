"""Status of exports from the Multi-Cluster Services API, translated to a ServiceLink."""

from typing import Any

import pytest

from agent.drivers.mcs import conflicting, exported, imported


def said(*conditions: tuple[str, str, str], **status: Any) -> Any:
    found = [
        {"type": type, "status": value, "reason": reason, "message": f"{reason}!"} for type, value, reason in conditions
    ]
    return {"status": {"conditions": found, **status}}


@pytest.mark.parametrize(
    ("export", "status", "reason", "words"),
    [
        (None, "False", "Pending", "no ServiceExport yet"),
        ({}, "False", "Pending", "see that one runs"),
        (said(("Valid", "True", "Valid")), "True", "Programmed", ""),
        (said(("Valid", "False", "NoService")), "False", "NoService", "NoService!"),
        (said(("Valid", "False", "InvalidServiceType")), "False", "InvalidServiceType", ""),
        (said(("Valid", "False", "UnsupportedServiceType")), "False", "UnsupportedServiceType", ""),
        (said(("Valid", "Unknown", "")), "False", "Pending", ""),
        (said(("Valid", "True", "Valid"), ("Ready", "True", "Exported")), "True", "Programmed", ""),
        (said(("Valid", "True", "Valid"), ("Ready", "False", "Failed")), "False", "Failed", "Failed!"),
        (said(("Valid", "True", "Valid"), ("Ready", "False", "Pending")), "False", "Pending", ""),
        (said(("Valid", "True", "Valid"), ("Ready", "Unknown", "Pending")), "True", "Programmed", ""),
    ],
)
def test_what_became_of_an_export(export: Any, status: str, reason: str, words: str) -> None:
    found = exported(export)
    assert (found.status, found.reason) == (status, reason)
    assert words in found.message
    assert found.status == "True" or found.message


@pytest.mark.parametrize(
    ("export", "reason"),
    [
        (None, None),
        (said(("Conflict", "False", "NoConflicts")), None),
        (said(("Conflict", "True", "PortConflict,TypeConflict")), "PortConflict,TypeConflict"),
    ],
)
def test_exports_that_differ_are_in_conflict(export: Any, reason: str | None) -> None:
    found = conflicting(export)
    assert (found.reason if found is not None else None) == reason


@pytest.mark.parametrize(
    ("found", "status", "reason", "words"),
    [
        (None, "False", "Pending", "no ServiceImport"),
        ({}, "False", "Pending", "names no cluster"),
        (said(clusters=[{"cluster": "us"}, {"cluster": "eu"}]), "True", "Connected", "from eu, us"),
        (said(("Ready", "True", "Ready"), clusters=[{"cluster": "eu"}]), "True", "Connected", ""),
        # The implementation names clusters like their Targets, and has not imported this one.
        (said(clusters=[{"cluster": "us"}, {"cluster": "here"}]), "False", "Pending", "names here, us alone"),
        # One of these may be the cluster.
        (said(clusters=[{"cluster": "b"}, {"cluster": "us"}]), "Unknown", "Unverified", "from b, us, as its"),
        (
            said(("Ready", "False", "IPFamilyNotSupported"), clusters=[{"cluster": "eu"}]),
            "False",
            "IPFamilyNotSupported",
            "ServiceImport: IPFamilyNotSupported!",
        ),
    ],
)
def test_what_has_come_to_a_cluster(found: Any, status: str, reason: str, words: str) -> None:
    finding = imported(found, ["eu", "admiralty-default-eu"], {"here", "us", "eu", "admiralty-default-eu"})
    assert (finding.status, finding.reason) == (status, reason)
    assert words in finding.message
