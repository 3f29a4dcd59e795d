import io

import pytest
from rich.console import Console

from hack.lab.demo.display import Display, how_far
from hack.lab.demo.fleet import assemble
from hack.lab.demo.manifests import DEPLOYMENT
from tests.sandbox.demo import moments


@pytest.fixture
def output() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def display(output: io.StringIO) -> Display:
    return Display(Console(file=output, width=80, force_terminal=False))


def test_a_step_that_is_done_leaves_a_table_that_fits_80_columns(display: Display, output: io.StringIO) -> None:
    fleet = assemble(moments.running(("us", "eu") * 5))
    display.begin("A Deployment", "What it is.", "kubectl apply", DEPLOYMENT)
    display.watch()
    display.show(fleet, [])
    display.done("10 pods Running")
    text = output.getvalue()
    assert "$ kubectl apply" in text
    assert "✓ 10 pods Running" in text
    assert text.count("admiralty-default-us") == 3
    assert "... 5 more" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_terminal_shows_every_pod_while_a_step_goes_on(output: io.StringIO) -> None:
    display = Display(Console(file=output, width=100, height=40, force_terminal=True))
    display.begin("A Deployment", "What it is.", "", DEPLOYMENT)
    display.watch()
    display.show(assemble(moments.running(("us", "eu") * 5)), [])
    display.close()
    assert all(f"web-{number}" in output.getvalue() for number in range(10))


def test_commands_are_never_wrapped(display: Display, output: io.StringIO) -> None:
    command = "kubectl " + "very-" * 30 + "long"
    display.say(command, "cyan")
    assert output.getvalue() == command + "\n"


def test_a_step_that_failed_tells_reasons_and_details(display: Display, output: io.StringIO) -> None:
    display.begin("A Job", "What it is.")
    display.failed("6. A Job", [f"reason {number}" for number in range(20)], ["event in us: Pod x: FailedScheduling"])
    text = output.getvalue()
    assert "6. A Job: failed after" in text
    assert "reason 11" in text
    assert "and 8 more" in text
    assert "FailedScheduling" in text


def test_how_far_tells_phases_and_places() -> None:
    readings = moments.running(("us", "eu", "eu"))
    readings.pods["cd"][0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert how_far(assemble(readings), DEPLOYMENT) == ("3 proxy pods (Running 2, Terminating 1); delegates: eu 2, us 1")
