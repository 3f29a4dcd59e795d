"""The roles of agents and webhooks hold no verb that the whole suite of these tests does not need."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import CHOSEN, OUTCOMES
from tests.e2e.fleet import Fleet
from tests.e2e.rights import LEDGER, Ledger, refused

HERE = Path(__file__).parent
OPTIONAL = {"test_32_replicas.py", "test_40_versions.py", Path(__file__).name}
"""What not every machine can run, and what needs no right that others do not."""
WITHIN = "an API server asks whether one may, within another request: no audit log shows it"
FOLLOW = "tests/controllers/test_follow*.py"
AGAIN = "what an agent finds there that it, or another before it, has made"
ADMIRALTY = "Admiralty's agents, as sources, ask for it"
REAL = "takes containers that really run; tests/controllers/test_livechanges.py plays them"
NEEDED_ELSEWHERE = {
    "agent: bind clusterroles.rbac.authorization.k8s.io": WITHIN,
    "agent: approve signers.certificates.k8s.io": WITHIN,
    "agent: update podchaperons/finalizers.multicluster.admiralty.io": f"OpenShift's {WITHIN}",
    "agent: watch clusterproperties.about.k8s.io": "few clusters serve them; tests/controllers/test_summary.py",
    "agent: watch clusterclaims.cluster.open-cluster-management.io": "the same",
    "agent: patch pods/resize": REAL,
    "agent: get events": AGAIN,
    "agent: patch events": AGAIN,
    "agent: get serviceexports.multicluster.x-k8s.io": AGAIN,
    "source: get serviceexports.multicluster.x-k8s.io": AGAIN,
    "source: get ingresses.networking.k8s.io": AGAIN,
    "agent: patch configmaps": f"finalizers of Admiralty's agent are taken off: {FOLLOW}",
    "agent: create serviceaccounts/token": "tests/controllers/test_sourceapi.py",
    **{
        f"agent: {verb} {kind}": "a target's administrator has to agree first: tests/controllers/test_followrules.py"
        for verb in ("get", "list", "watch")
        for kind in ("roles.rbac.authorization.k8s.io", "networkpolicies.networking.k8s.io")
    },
    **{f"source: {verb} serviceaccounts": FOLLOW for verb in ("get", "create", "update", "delete")},
    "source: patch persistentvolumeclaims": FOLLOW,
    "source: update podchaperons.multicluster.admiralty.io": ADMIRALTY,
    "source: deletecollection podchaperons.multicluster.admiralty.io": ADMIRALTY,
    "source: get clustersummaries.multicluster.admiralty.io": ADMIRALTY,
    "source: list pods": ADMIRALTY,
    "source: list serviceexports.multicluster.x-k8s.io": "driver mcs is chosen only where a review says one has it",
}
"""Grants that no audit log of these tests shows, and why they are there.

Uninstalling has a role of its own, with which it runs in tests/chart.
"""


def left_out(request: pytest.FixtureRequest) -> str:
    """What of the suite has not been run to its end, so that nothing can be said; empty if all has."""
    outcomes = request.session.stash.get(OUTCOMES, {})
    passed = {Path(nodeid.partition("::")[0]).name for nodeid, outcome in outcomes.items() if outcome == "passed"}
    missing = {path.name for path in HERE.glob("test_*.py")} - passed - OPTIONAL
    deselected = request.config.stash[CHOSEN] - {item.nodeid for item in request.session.items}
    single = {each for each in request.config.args if "::" in each}
    # Folders below this one have sandboxes of their own.
    failed = {
        nodeid for nodeid, outcome in outcomes.items() if outcome == "failed" and nodeid in request.config.stash[CHOSEN]
    }
    return ", ".join(sorted(missing | deselected | single | failed))


def log(directory: Path, user: str, verb: str, resource: str, code: int = 200, **more: Any) -> None:
    """One more line in the audit log of a cluster."""
    status = {"code": code, "message": f"{user} cannot {verb} {resource}" if code == 403 else ""}
    line = {"user": {"username": user}, "verb": verb, "objectRef": {"resource": resource, **more}}
    (directory / "cd").mkdir(exist_ok=True)
    with (directory / "cd" / "audit.log").open("a") as file:
        file.write(json.dumps(line | {"responseStatus": status}) + "\n")


AGENT = "system:serviceaccount:kube-system:flotilla-agent"


def test_only_what_no_role_grants_counts_as_refused(tmp_path: Path) -> None:
    log(tmp_path, AGENT, "delete", "secrets", 403, namespace="default", name="a")
    # The API server has just been started.
    log(tmp_path, AGENT, "list", "pods", 403)
    # What a target's administrator does not grant is nobody's fault.
    log(tmp_path, "system:serviceaccount:default:cd", "delete", "nodes", 403)
    (found,) = refused(tmp_path)
    assert "cannot delete secrets" in found


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
    # The grant is for another name.
    assert "agent: patch clustersummaries.multicluster.admiralty.io" in ledger.unused()


def test_every_exception_is_a_grant() -> None:
    assert NEEDED_ELSEWHERE.keys() <= set(Ledger().unused())


async def test_no_verb_is_granted_in_vain(fleet: Fleet, request: pytest.FixtureRequest) -> None:
    if parts := left_out(request):
        pytest.skip(f"only the whole suite needs every verb; left out or failed: {parts}")
    assert [each for each in LEDGER.unused() if each not in NEEDED_ELSEWHERE] == []
