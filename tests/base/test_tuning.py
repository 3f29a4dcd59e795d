import json
import logging
from dataclasses import dataclass

import pytest

from agent.base import flags, log, tuning
from agent.base.flag_values import SWITCH, TEXT, whole
from agent.base.flags import InvalidSetting, flag, repeated, tuned
from agent.base.tuning import InvalidTuning

EXPERTS, OTHERS = ("move-rate", "stable-after", "hold"), ("moves",)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Example."""

    moves: bool = flag(SWITCH, "false", "moves")
    move_rate: int = tuned(whole(1), "10", "rate")
    keys: tuple[str, ...] = repeated(TEXT, "keys", expert=True)


def parse(*arguments: str, **environ: str) -> Settings:
    return flags.parse(Settings, arguments, environ, program="test", purpose="test")


def test_items_are_given_one_by_one_or_separated_by_commas() -> None:
    read = tuning.read(["move-rate=5, hold=1m,", "hold=2m"], experts=EXPERTS, others=OTHERS)
    assert read == {"move-rate": ["5"], "hold": ["1m", "2m"]}


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("moves=true", "moves has a flag of its own: use --moves"),
        ("move-rat=5", "no setting for experts is named 'move-rat': did you mean move-rate?"),
        ("zzz=5", "no setting for experts is named 'zzz'; the page Settings lists all"),
        ("hold", "hold needs a value: write hold=VALUE"),
    ],
)
def test_an_item_that_cannot_be_used_is_refused_with_the_remedy(item: str, message: str) -> None:
    with pytest.raises(InvalidTuning, match=message.replace("?", r"\?")):
        tuning.read([item], experts=EXPERTS, others=OTHERS)


def test_tuning_wins_over_flags_and_variables_of_earlier_versions() -> None:
    earlier = {"FLOTILLA_MOVE_RATE": "1"}
    assert parse(**earlier).move_rate == 1
    assert parse(**earlier, FLOTILLA_TUNING="move-rate=2").move_rate == 2
    assert parse("--move-rate=3", **earlier, FLOTILLA_TUNING="move-rate=2").move_rate == 3
    assert parse("--tuning=move-rate=4", "--move-rate=3", FLOTILLA_TUNING="move-rate=2").move_rate == 4
    assert parse("--tuning=move-rate=4,move-rate=5").move_rate == 5


def test_settings_with_several_values_take_all_items() -> None:
    assert parse("--tuning=keys=a,keys=b", "--tuning", "keys=c").keys == ("a", "b", "c")
    assert parse(FLOTILLA_KEYS="a,b").keys == ("a", "b")


def test_flags_and_variables_of_earlier_versions_count_with_a_warning_in_the_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(log, "_early", [])
    parse("--tuning=move-rate=4", "--moves")
    assert parse("--move-rate=3", FLOTILLA_KEYS="a").move_rate == 3
    assert not capsys.readouterr().err
    log.configure(as_json=True)
    log.configure(as_json=True)
    assert [json.loads(line)["message"] for line in capsys.readouterr().err.splitlines()] == [
        "--move-rate: a later version will refuse this; use --tuning=move-rate=VALUE",
        "FLOTILLA_KEYS: a later version will refuse this; use --tuning=keys=VALUE",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--tuning=move-rate=0",), "--tuning=move-rate=0: must be 1 or more"),
        (("--tuning=moves=true",), "--tuning=moves=true: moves has a flag of its own: use --moves"),
    ],
)
def test_values_that_cannot_be_used_are_named(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        parse(*arguments)


def test_help_lists_documented_flags_only(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("--help")
    shown = capsys.readouterr().out
    assert "--moves" in shown
    assert "--tuning NAME=VALUE" in shown
    assert "move-rate" not in shown
