"""Evaluation of audit logs: which rights are missing, and which are never used."""

import json
from pathlib import Path
from typing import Any

from tests.e2e.rights import Ledger, refused
from tests.e2e.verdict import NEEDED_ELSEWHERE


def log(
    directory: Path, user: str, verb: str, resource: str, code: int = 200, *, message: str = "", **more: Any
) -> None:
    """Append a line to the audit log of a cluster."""
    status = {"code": code, "message": message or (f"{user} cannot {verb} {resource}" if code == 403 else "")}
    line = {"user": {"username": user}, "verb": verb, "objectRef": {"resource": resource, **more}}
    (directory / "cd").mkdir(exist_ok=True)
    with (directory / "cd" / "audit.log").open("a") as file:
        file.write(json.dumps(line | {"responseStatus": status}) + "\n")


AGENT = "system:serviceaccount:kube-system:flotilla-agent"


def test_only_what_no_role_grants_counts_as_refused(tmp_path: Path) -> None:
    log(tmp_path, AGENT, "delete", "secrets", 403, namespace="default", name="a")
    # An API server that has just started may refuse requests that a role grants.
    log(tmp_path, AGENT, "list", "pods", 403)
    # A right that the target's administrator withholds is not an error.
    log(tmp_path, "system:serviceaccount:default:cd", "delete", "nodes", 403)
    (found,) = refused(tmp_path)
    assert "cannot delete secrets" in found


def test_what_a_policy_keeps_the_agent_from_counts_as_refused_though_its_role_grants_it(tmp_path: Path) -> None:
    for policy in ("multicluster-scheduler-agent-nodes", "somebody-elses"):
        message = f"ValidatingAdmissionPolicy '{policy}' with binding '{policy}' denied request: metadata.labels"
        log(tmp_path, AGENT, "patch", "nodes", 403, message=message, name="a")
    (found,) = refused(tmp_path)
    assert "'multicluster-scheduler-agent-nodes'" in found


def test_a_grant_is_in_vain_until_somebody_of_that_role_has_needed_it(tmp_path: Path) -> None:
    ledger, source = Ledger(), "system:serviceaccount:default:cd"
    summaries = {"apiGroup": "multicluster.admiralty.io", "name": "somebody-elses"}
    log(tmp_path, AGENT, "list", "pods")
    log(tmp_path, AGENT, "patch", "clustersummaries", **summaries)
    log(tmp_path, source, "create", "secrets")
    ledger.read(tmp_path)
    assert "agent: list pods" not in ledger.unused()
    assert {"agent: watch pods", "source: list pods", "source: update secrets"} < set(ledger.unused())
    assert "source: create secrets" not in ledger.unused()
    # The role grants the right for another name only.
    assert "agent: patch clustersummaries.multicluster.admiralty.io" in ledger.unused()


def test_every_exception_is_a_grant() -> None:
    assert NEEDED_ELSEWHERE.keys() <= set(Ledger().unused())
