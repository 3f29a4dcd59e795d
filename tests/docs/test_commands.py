"""Every command in README and documentation runs on the sandbox, or has a listed substitute."""

import shlex
from collections.abc import Iterator

import pytest

from agent.api.names import SCHEDULING_MODES
from agent.settings import parse as parse_agent
from hack.lab.benchmarks.__main__ import main as bench
from hack.lab.corpus.__main__ import parse as parse_corpus
from hack.lab.sandbox.objects import REPOSITORY
from hack.lab.soak.__main__ import parse as parse_soak
from hack.lab.trace.__main__ import parse as parse_trace
from tests.docs.pages import CHART_README, DOCS, PAGES, README, Block, blocks
from webhook.settings import parse as parse_webhook

ELSEWHERE = {
    "demo": "tests/e2e/demo and whoever runs this",
    "helm": "tests/chart/test_documented.py",
    "image": "tests/hack/test_packages.py; building needs Docker",
    "release": "tests/hack/test_packages.py; audits and scans need services of others",
    "after": "tests/cli/test_uninstall.py",
    "real": "tests/sandbox/realnode",
    "bench": "below: its arguments",
    "hand": "below: its arguments",
    "soak": "below: its arguments",
    "corpus": "below: its arguments",
    "day": "below: its arguments, and whoever runs this",
    "hub": "tests/controllers/hub/test_verbs.py, and the value in tests/chart/test_switches.py",
    "volumes": "tests/e2e/test_65_failover.py, by the same requests",
}
"""Substitutes for blocks that test_on_the_sandbox.py does not run, by mark."""


def marked(mark: str) -> Iterator[list[str]]:
    """Yield the words of every line of the blocks with a mark, in all pages."""
    for block in every():
        if block.mark == mark:
            for line in block.text.replace("\\\n", " ").splitlines():
                if words := shlex.split(line, comments=True):
                    yield words


def every() -> list[Block]:
    """Return all blocks with commands."""
    return [block for page in PAGES for block in blocks(page, "sh")]


RUN_HERE = {
    "README.md",
    "start/quickstart.md",
    "start/first-steps.md",
    "guides/whole-namespaces.md",
    "guides/choose-targets.md",
    "guides/move.md",
    "guides/shutdown-delay.md",
    "guides/publish-addresses.md",
    "guides/blue-green.md",
    "guides/failover.md",
    "guides/stateful.md",
    "guides/drain-and-retire.md",
    "guides/disaster-recovery.md",
    "guides/placement.md",
    "guides/scores.md",
    "guides/migrate-from-ocm.md",
    "guides/migrate-from-admiralty.md",
    "guides/admiralty-walkthrough.md",
}
"""Pages with blocks that test_on_the_sandbox.py runs."""


def test_every_block_is_run_somewhere() -> None:
    assert {block.mark for block in every()} <= {"", *ELSEWHERE}
    assert {block.page for block in every() if not block.mark} == RUN_HERE


def test_the_charts_own_page_has_the_commands_of_the_documentation() -> None:
    pages = (DOCS / "start/installation.md", DOCS / "guides/upgrade.md")
    documented = [line for page in pages for block in blocks(page, "sh") for line in block.text.splitlines()]
    lines = [line for block in blocks(CHART_README, "sh") for line in block.text.splitlines()]
    assert [line.split()[1] for line in lines] == ["install", "upgrade", "uninstall"]
    assert set(lines) <= set(documented)


def test_programs_of_the_repository_are_there() -> None:
    found = {words[0] for mark in ("demo", "bench", "soak", "corpus", "day") for words in marked(mark)}
    assert {"hack/demo", "hack/test", "hack/check", "hack/bench", "hack/soak", "hack/corpus", "hack/trace"} <= found
    for program in found:
        assert (REPOSITORY / program).stat().st_mode & 0o111


def test_benchmarks_are_called_as_they_want(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (*marked("bench"), *(words for words in marked("demo") if words[0] == "hack/bench")):
        with pytest.raises(SystemExit) as ended:
            bench([*words[1:], "--help"])
        assert ended.value.code == 0
    assert "usage: hack/bench" in capsys.readouterr().out


def test_soaks_are_called_as_they_want() -> None:
    for words in marked("soak"):
        assert parse_soak(words[1:]).seed is not None


def test_traces_are_called_as_they_want() -> None:
    for words in marked("day"):
        if words[0] == "hack/trace":
            assert parse_trace(words[1:]).mode in SCHEDULING_MODES


def test_the_corpus_is_called_as_it_wants() -> None:
    for words in marked("corpus"):
        assert parse_corpus(words[1:]).patience


def test_what_the_chart_proposes_after_its_installation_is_what_the_first_steps_do() -> None:
    notes = (REPOSITORY / "charts/flotilla/templates/NOTES.txt").read_text()
    proposed = [line.strip() for line in notes.splitlines() if line.startswith("  kubectl ") and "{{" not in line]
    assert [line.split()[1] for line in proposed] == ["label", "run"]
    first_steps, *_ = (block.text for block in blocks(README, "sh") if not block.mark)
    assert set(proposed) <= set(first_steps.splitlines())


def test_processes_understand_the_flags_that_are_given_by_hand() -> None:
    for _, _, process, *flags in marked("hand"):
        if process == "agent":
            assert parse_agent(flags).cluster_name in ("cd", "us")
        else:
            given = [flag.replace("ADDRESS", "192.0.2.1") for flag in flags]
            assert parse_webhook(given, {}).register
