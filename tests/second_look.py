"""Report of tests that pass only in the second run of `hack/test`, with their failures in the first."""

import pytest

_KEY = "flotilla/failed"
_AGAIN = "flotilla/again"
_LAST_LINES = 25


class Looks:
    """Remembers failures of the first run, and lists those that the second does not repeat."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._failed: dict[str, str] = {}
        self._passed = set[str]()
        self._again: dict[str, None] = {}
        """Tests to run once more; the whole file if its tests depend on each other."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the first failure of a test."""
        if report.passed and report.when == "call":
            self._passed.add(report.nodeid)
        if report.failed:
            self._failed.setdefault(report.nodeid, report.longreprtext)
            file = report.nodeid.partition("::")[0]
            self._again[file if "story" in report.keywords else report.nodeid] = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep a file that cannot be imported: workers end with the same status as for a failed test."""
        if report.passed:
            self._passed.add(report.nodeid)
        if report.failed:
            self._failed.setdefault(report.nodeid, report.longreprtext)
            self._again[report.nodeid] = None

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Report flaky tests."""
        # None under `-p no:cacheprovider`.
        cache = getattr(self._config, "cache", None)
        if cache is None:
            return
        if not self._config.getoption("--second-look"):
            cache.set(_KEY, self._failed)
            cache.set(_AGAIN, list(self._again))
            return
        before: dict[str, str] = cache.get(_KEY, {})
        # A test that was not run again, since a file could not be imported, has not passed.
        passed = self._passed - self._failed.keys()
        flaky = {nodeid: text for nodeid, text in before.items() if nodeid in passed}
        for nodeid, text in flaky.items():
            terminalreporter.section(f"FLAKY, passed only in the second look: {nodeid}")
            terminalreporter.write_line("\n".join(text.splitlines()[-_LAST_LINES:]))
        if flaky:
            terminalreporter.write_line(f"{len(flaky)} flaky: {', '.join(flaky)}")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option by which hack/test selects the second run."""
    parser.addoption("--second-look", action="store_true", help="what failed before runs once more")


def pytest_configure(config: pytest.Config) -> None:
    """Register only in the process that gathers reports. The second run ignores other options and repeats
    failed tests."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Looks(config))
    cache = getattr(config, "cache", None)
    if cache is not None and config.getoption("--second-look"):
        config.args = cache.get(_AGAIN, [])
