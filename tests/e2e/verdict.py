"""Fail the run if a role of agents or webhooks has a verb that none of these tests needs."""

from collections import defaultdict
from collections.abc import Generator

import pytest
from xdist.workermanage import WorkerController

from tests.e2e.rights import LEDGER
from tests.tiers import EVERYTHING, FIRST, FULL, tier_of

FOLDER = "tests/e2e"
OPTIONAL = {
    "test_32_replicas.py",
    "test_37_rollouts.py",
    "test_39_flux.py",
    "test_40_versions.py",
    "test_42_upgrades.py",
    "test_56_all_at_once.py",
    "test_62_moves.py",
    "test_71_applications_run.py",
    "test_99_rights.py",
}
"""Files that not every machine or run executes, and that need no verb which the other files do not need."""
WITHIN = "an API server asks whether one may, within another request: no audit log shows it"
FOLLOW = "tests/controllers/dependencies/test_follow*.py"
STAND_INS = "volumes grow, and begin again elsewhere: tests/controllers/dependencies/test_standins.py"
AGAIN = "what an agent finds there that it, or another before it, has made"
ADMIRALTY = "Admiralty's agents, as sources, ask for it"
REAL = "takes containers that really run; tests/controllers/pods/test_livechanges.py plays them"
LINKERD = "only where Linkerd links clusters: tests/controllers/services/test_links_linkerd.py"
NEEDED_ELSEWHERE = {
    "agent: bind clusterroles.rbac.authorization.k8s.io": WITHIN,
    "agent: update placements/finalizers.cluster.open-cluster-management.io": f"OpenShift's {WITHIN}",
    "agent: update p2codeschedulingmanifests/finalizers.scheduling.p2code.eu": f"OpenShift's {WITHIN}",
    "agent: create managedclustersets/join.cluster.open-cluster-management.io": "the webhook asks for it, by a review",
    "agent: approve signers.certificates.k8s.io": WITHIN,
    "agent: update podchaperons/finalizers.multicluster.admiralty.io": f"OpenShift's {WITHIN}",
    "agent: watch clusterproperties.about.k8s.io": "few clusters serve them; tests/controllers/targets/test_summary.py",
    "agent: watch clusterclaims.cluster.open-cluster-management.io": "the same",
    **{
        f"agent: {verb} manifestworks.work.open-cluster-management.io": (
            "only on a hub of Open Cluster Management: tests/controllers/applications/test_p2code_works.py"
        )
        for verb in ("list", "watch")
    },
    "agent: list links.multicluster.linkerd.io": LINKERD,
    "source: list links.multicluster.linkerd.io": LINKERD,
    "agent: list nodes.metrics.k8s.io": "only where it is wanted: tests/controllers/targets/test_summary_measured.py",
    "agent: patch pods/resize": REAL,
    "agent: get events": AGAIN,
    "agent: patch events": AGAIN,
    "agent: get serviceexports.multicluster.x-k8s.io": AGAIN,
    "source: get serviceexports.multicluster.x-k8s.io": AGAIN,
    "source: get ingresses.networking.k8s.io": AGAIN,
    "source: get podchaperons.multicluster.admiralty.io": f"{AGAIN}: tests/scheduler/reserve/test_candidate_writer.py",
    "agent: patch configmaps": f"finalizers of Admiralty's agent are taken off: {FOLLOW}",
    **{
        f"agent: {verb} {kind}": "a target's administrator agrees first: test_followrules.py"
        for verb in ("get", "list", "watch")
        for kind in ("roles.rbac.authorization.k8s.io", "networkpolicies.networking.k8s.io")
    },
    **{f"source: {verb} serviceaccounts": FOLLOW for verb in ("get", "create", "update", "delete")},
    "source: patch persistentvolumeclaims": FOLLOW,
    "agent: patch persistentvolumes": STAND_INS,
    "agent: patch persistentvolumeclaims/status": STAND_INS,
    **{
        f"source: update {resource}": f"OpenShift's {WITHIN}"
        for resource in (
            "podchaperons/finalizers.multicluster.admiralty.io",
            "sources/finalizers.multicluster.admiralty.io",
            "pods/finalizers",
        )
    },
    "source: update podchaperons.multicluster.admiralty.io": ADMIRALTY,
    "source: deletecollection podchaperons.multicluster.admiralty.io": ADMIRALTY,
    "source: list pods": ADMIRALTY,
}
"""Grants that appear in no audit log of these tests, with the reason to have them.

Uninstalling uses its own role, which tests/chart covers.
"""

_KEY = "flotilla/rights"
_OUTPUT = "unused rights"
_FIRST_TIER = "flotilla/rights-of-the-first-tier"
"""Key in pytest's cache for `hack/test --full`: only both tiers together need every verb."""
_IN_VAIN = 6
"""Exit status for unneeded grants. Differs from that of failed tests: hack/test runs failed tests again and
keeps this status."""


class Verdict:
    """Collects test outcomes and the grants that no worker's fleets have needed."""

    def __init__(self, config: pytest.Config) -> None:
        self._chosen = any("::" in each for each in config.args) or config.option.keyword or config.option.markexpr
        self._outcomes: defaultdict[str, set[str]] = defaultdict(set)
        self._unused: set[str] | None = None
        self._incomplete = False
        """True if a worker crashed, since the grants that its fleets needed are then unknown."""
        self._said = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the outcome of a test by file."""
        folder, _, file = report.nodeid.partition("::")[0].rpartition("/")
        if folder == FOLDER and (report.when == "call" or not report.passed):
            self._outcomes[file].add(report.outcome)

    def pytest_testnodedown(self, node: WorkerController) -> None:
        """Add the unneeded grants that a worker reports."""
        output = getattr(node, "workeroutput", {})
        if _OUTPUT in output:
            self.add(output[_OUTPUT])
        else:
            self._incomplete = True

    def add(self, unused: list[str]) -> None:
        """Add the grants that one process' fleets have not needed."""
        self._unused = set(unused) if self._unused is None else self._unused & set(unused)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Judge the grants if all files have passed. The second look repeats the verdict of the first."""
        cache = getattr(session.config, "cache", None)
        if session.config.getoption("--second-look"):
            self._correct(cache)
            self._said = cache.get(_KEY, "") if cache is not None else ""
            return
        if not session.config.option.numprocesses:
            self.add(LEDGER.unused())
        if self._outcomes and not self._chosen:
            self._join_tiers(session.config)
        if self._outcomes and not self._said:
            self._judge(session)
        if cache is not None:
            cache.set(_KEY, self._said)

    def _correct(self, cache: pytest.Cache | None) -> None:
        """Count tests that pass in the second look as passed, in the record that `hack/test --full` reads."""
        record = cache.get(_FIRST_TIER, None) if cache is not None else None
        if cache is not None and record:
            passed = {file: ["passed"] for file, found in self._outcomes.items() if found == {"passed"}}
            cache.set(_FIRST_TIER, {**record, "outcomes": record["outcomes"] | passed})

    def _join_tiers(self, config: pytest.Config) -> None:
        """Save the first tier's result for `hack/test --full`, or combine it with the second tier's."""
        cache, tier = getattr(config, "cache", None), tier_of(config)
        if cache is None:
            return
        if tier == FIRST:
            self._said = "judged by hack/test --full, together with what a whole run of hack/test has needed"
            if self._incomplete or config.args != [EVERYTHING] or config.getoption("--installed-by") != "sandbox":
                return
            outcomes = {file: sorted(found) for file, found in self._outcomes.items()}
            cache.set(_FIRST_TIER, {"outcomes": outcomes, "unused": sorted(self._unused or ())})
        elif tier == FULL and (earlier := cache.get(_FIRST_TIER, None)):
            self.add(earlier["unused"])
            for file, found in earlier["outcomes"].items():
                self._outcomes[file] |= set(found)

    def _judge(self, session: pytest.Session) -> None:
        files = {path.name for path in (session.config.rootpath / FOLDER).glob("test_*.py")} - OPTIONAL
        left_out = sorted(file for file in files if self._outcomes[file] - {"skipped"} != {"passed"})
        in_vain = sorted((self._unused or set()) - NEEDED_ELSEWHERE.keys())
        if self._incomplete:
            self._said = "not judged, since a worker broke down"
        elif self._chosen or left_out:
            self._said = f"not judged, since only the whole suite needs every verb: {', '.join(left_out)}"
        elif in_vain:
            self._said = f"granted, and needed by no test: {', '.join(in_vain)}"
            session.exitstatus = _IN_VAIN
        else:
            self._said = "no verb is granted in vain"

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None]:
        """Print the verdict at the very end, where readers of a truncated log see it."""
        yield
        if self._said:
            terminalreporter.section("rights of agents and webhooks")
            terminalreporter.write_line(self._said)


def pytest_configure(config: pytest.Config) -> None:
    """Register the verdict in the main process; workers only report."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Verdict(config))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send a worker's unneeded grants to the main process."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_OUTPUT] = LEDGER.unused()
