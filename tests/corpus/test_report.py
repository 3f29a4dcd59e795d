"""The output of hack/corpus and its command line."""

from pathlib import Path

import pytest

from hack.lab.corpus import report
from hack.lab.corpus.__main__ import chosen, main, parse
from hack.lab.corpus.errors import CorpusError
from hack.lab.corpus.files import File
from hack.lab.corpus.ground import parts_of
from hack.lab.corpus.trial import Result


def result(name: str, *unlike: str, waits: tuple[str, ...] = (), rewritten: int = 0) -> Result:
    return Result(File(name, Path(name), ()), unlike, waits, rewritten)


RESULTS = [
    result("a.yaml", rewritten=2),
    result("longer.yaml", "Pod shop/web-*, how many: 1 (plain: 2)"),
    result("c.yaml", waits=("Pod shop/dreamer: it is Pending",)),
]


def test_a_table_has_a_line_for_each_and_what_differs_below() -> None:
    assert report.table(RESULTS, {}) == [
        "a.yaml       alike",
        "longer.yaml  differs",
        "    Pod shop/web-*, how many: 1 (plain: 2)",
        "c.yaml       alike; not ready on a plain cluster either: Pod shop/dreamer: it is Pending",
        "",
        report.summary(RESULTS, {}),
    ]
    assert report.summary(RESULTS, {}) == (
        "2 of 3 alike; 1 of them not ready on a plain cluster either; a second apply says `configured` of 2 rerouted"
        " Services and bare pods"
    )
    assert report.unexpected(RESULTS, {}) == ["longer.yaml"]


def test_what_is_known_to_differ_is_said_with_its_reason_and_so_is_what_does_not_differ_any_more() -> None:
    expected = {"longer.yaml": "it is too long", "a.yaml": "it was otherwise"}
    assert report.line(RESULTS[1], expected).startswith("longer.yaml  differs as expected: it is too long\n")
    assert "2 of 3 alike; 1 differ as expected; alike although not expected: a.yaml" in report.summary(
        RESULTS, expected
    )
    assert report.unexpected(RESULTS, expected) == []


def test_of_many_differences_the_first_are_shown() -> None:
    shown = report.line(result("a.yaml", *map(str, range(20))), {}).splitlines()
    assert shown[-1] == "    and 12 more"


@pytest.mark.parametrize("arguments", [["--patience", "0"], ["--side-by-side", "x"], ["one", "two"]])
def test_what_makes_no_sense_is_refused_with_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse(arguments)
    assert "usage: hack/corpus" in capsys.readouterr().err


def test_a_directory_or_a_sandbox_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "missing")]) == 2
    assert "is no directory" in capsys.readouterr().err
    assert main(["--sandbox", str(tmp_path)]) == 2
    assert "there is no sandbox in" in capsys.readouterr().err
    assert main(["--only", "missing.yaml"]) == 2
    assert "no manifest is called missing.yaml: there are affinities.yaml" in capsys.readouterr().err


def test_only_those_are_tried_that_are_asked_for() -> None:
    files = [each.file for each in RESULTS]
    assert [file.name for file in chosen(files, ["c.yaml"])] == ["c.yaml"]
    assert chosen(files, []) == files


def test_a_sandbox_needs_a_source_a_target_and_a_plain_cluster() -> None:
    assert parts_of(["cd", "us", "eu", "plain"]) == ("cd", ["us", "eu"], "plain")
    with pytest.raises(CorpusError, match="cd, us: three are needed"):
        parts_of(["cd", "us"])
