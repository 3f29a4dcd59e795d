"""hack/record: the pictures show a terminal's output and no detail of the recording machine."""

import re
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.live import Live

from hack.lab.recording import picture, terminal
from hack.lab.recording.__main__ import PICTURES, RECORDINGS, frames, parse
from hack.lab.sandbox.objects import REPOSITORY
from tests.docs.pages import PAGES

WIDTH = 40
_ADDRESS = re.compile(r"\w+://(?!www\.w3\.org/2000/svg)(?!10\.)[^\s<\"]+")
"""Addresses other than those of the sandbox's own clusters."""


def plain(lines: list[str]) -> list[str]:
    return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]


def test_a_line_that_is_written_again_shows_its_last_text() -> None:
    assert terminal.lines("compiling: 1 %\rcompiling: 22 %\r\ndone\r\n", WIDTH) == ["compiling: 22 %", "done"]
    assert terminal.lines("a long line\r\x1b[2Kshort\r\n", WIDTH) == ["short"]


def test_a_live_table_of_rich_shows_its_last_state_and_nothing_if_it_is_transient(capfd: pytest.CaptureFixture) -> None:
    for transient in (False, True):
        console = Console(force_terminal=True, width=WIDTH, file=sys.stdout)
        with Live("one\ntwo\nthree", console=console, auto_refresh=False, transient=transient) as live:
            live.update("four\nfive", refresh=True)
        console.print("after")
    shown = plain(terminal.lines(capfd.readouterr().out.replace("\n", "\r\n"), WIDTH))
    assert [line for line in shown if line] == ["four", "five", "after", "after"]


def test_colours_stay_and_end_with_their_text() -> None:
    assert terminal.lines("\x1b[1;32m✓\x1b[0m done", WIDTH) == ["\x1b[0;1;32m✓\x1b[0m done"]


def test_long_lines_wrap_as_on_a_terminal() -> None:
    assert terminal.lines("x" * (WIDTH + 2), WIDTH) == ["x" * WIDTH, "xx"]


def test_blank_lines_stay_but_at_the_end() -> None:
    assert terminal.lines("a\r\n\r\nb \r\n\r\n\r\n", WIDTH) == ["a", "", "b"]


def test_a_movement_that_is_not_understood_is_an_error() -> None:
    with pytest.raises(ValueError, match="CSI 3;4H"):
        terminal.lines("\x1b[3;4Hx", WIDTH)


def test_a_command_has_a_terminal_of_the_wanted_width(tmp_path: Path) -> None:
    program = "import os, sys; print(os.get_terminal_size().columns, sys.stdout.isatty()); sys.exit(3)"
    recorded = terminal.run([sys.executable, "-c", program], WIDTH, {}, tmp_path)
    assert recorded == terminal.Recorded(f"{WIDTH} True\r\n", 3)


def test_a_recording_stops_after_commands_and_paragraphs_and_ends_with_everything() -> None:
    lines = ["$ demo", "", "1. Up", "  $ kubectl get pods", "  ok", "", "That was all."]
    assert [frame.lines for frame in frames(lines)] == [1, 4, 5, 7]
    assert all(frame.seconds > 1 for frame in frames(lines))


def test_a_picture_has_the_text_and_asks_the_network_for_nothing() -> None:
    made = picture.svg("hack/demo", "demo", ["\x1b[32mRunning\x1b[0m <b>"], WIDTH)
    assert "Running" in made
    assert "&lt;b&gt;" in made
    assert "@import" not in made
    assert "url(#" in made
    assert _ADDRESS.findall(made) == []


def test_a_film_begins_at_the_top_and_scrolls_as_soon_as_its_window_is_full() -> None:
    film = picture.svg("x", "x", ["one", "two", "three"], WIDTH, 2, [picture.Frame(1, 1.0), picture.Frame(3, 3.0)])
    assert "0.00% { transform: translateY(0.0px) } 25.00% { transform: translateY(-24.4px) }" in film
    assert "prefers-reduced-motion" in film


@pytest.mark.parametrize("file", sorted(PICTURES.glob("*.svg")), ids=lambda file: file.stem)
def test_the_pictures_are_used_and_have_nothing_of_a_machine_in_them(file: Path) -> None:
    text = file.read_text()
    assert any(f"pictures/{file.name})" in page.read_text() for page in PAGES)
    assert _ADDRESS.findall(text) == []
    assert not re.search(r"/(root|home|Users|work)\b", text)
    assert str(REPOSITORY) not in text
    assert len(text) < 60_000


def test_recordings_are_chosen_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse([]) == list(RECORDINGS)
    assert parse(["explain"]) == ["explain"]
    with pytest.raises(SystemExit):
        parse(["film"])
    assert "there are demo, explain" in capsys.readouterr().err
