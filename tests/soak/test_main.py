"""The command line of hack/soak."""

from pathlib import Path

import pytest

from hack.lab.soak.__main__ import main, parse


@pytest.mark.parametrize(
    "arguments", [["--minutes", "0"], ["--minutes", "x"], ["--seed", "x"], ["--pods", "0"], ["more"]]
)
def test_what_makes_no_sense_is_refused_with_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse(arguments)
    assert "usage: hack/soak" in capsys.readouterr().err


def test_a_plan_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--plan", str(tmp_path / "missing")]) == 2
    assert "hack/soak: the plan cannot be read" in capsys.readouterr().err
