import re
from typing import NamedTuple

import pytest

from agent.model.targetchoice import InvalidChoice, Level, combine, flaws, level, mended, parse


class At(NamedTuple):
    title: str
    namespace: str = ""


US, EU, AP = At("us"), At("eu"), At("ap")
OWN_US = At("us", "shop")
ALL = (US, EU, AP)


def groups(text: str, own: frozenset[str] = frozenset(), targets: tuple[At, ...] = ALL) -> list[list[str]]:
    """Return the targets that a value admits, by preference."""
    choice = combine([Level("pod web-0", text)], own)
    assert choice is not None
    found: dict[int, list[str]] = {}
    for target in targets:
        if choice.admits(target):
            found.setdefault(choice.preference(target), []).append(f"{target.namespace}/{target.title}".lstrip("/"))
    return [found[index] for index in sorted(found)]


@pytest.mark.parametrize(
    ("text", "admitted"),
    [
        ("", [["us", "eu", "ap"]]),
        ("  ", [["us", "eu", "ap"]]),
        ("us", [["us"]]),
        ("us,eu", [["us", "eu"]]),
        (" us , us,eu ", [["us", "eu"]]),
        ("!us", [["eu", "ap"]]),
        ("!us, !eu", [["ap"]]),
        ("us > eu,ap", [["us"], ["eu", "ap"]]),
        ("us>eu>ap", [["us"], ["eu"], ["ap"]]),
        ("us > !us", [["us"], ["eu", "ap"]]),
        ("us > !eu", [["us"], ["ap"]]),
        ("us > us,eu", [["us"], ["eu"]]),
        ("clustertarget/us", [["us"]]),
        ("nowhere", []),
        ("nowhere > eu", [["eu"]]),
    ],
)
def test_a_value_names_targets_in_groups_of_preference(text: str, admitted: list[list[str]]) -> None:
    assert groups(text) == admitted


@pytest.mark.parametrize(
    ("text", "admitted"),
    [
        ("us", [["shop/us"]]),
        ("!us", [["us", "eu"]]),
        ("clustertarget/us", [["us"]]),
        ("!clustertarget/us", [["shop/us", "eu"]]),
        ("us,clustertarget/us", [["shop/us", "us"]]),
        ("clustertarget/us > us", [["us"], ["shop/us"]]),
    ],
)
def test_a_target_of_the_namespace_has_the_name_before_a_cluster_target(text: str, admitted: list[list[str]]) -> None:
    assert groups(text, frozenset({"us"}), (OWN_US, US, EU)) == admitted


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (",", r"a name is missing in ','"),
        ("us,,eu", r"a name is missing"),
        ("us >", r"a name is missing in 'us >'"),
        ("> us", r"a name is missing"),
        ("!", r"a name is missing"),
        ("us eu", r"'us eu' is no name of a target: write names of targets"),
        ("US", r"'US' is no name"),
        ("*", r"'\*' is no name"),
        ("!!us", r"'!us' is no name"),
        ("us < eu", r"'us < eu' is no name.*order of preference"),
        ("target/us", r"'target/us' is no name.*clustertarget/us is the ClusterTarget us"),
        ("clustertarget/", r"'clustertarget/' is no name"),
        ("us,!eu", r"'us,!eu' both names targets and excludes some"),
        ("ap > us,!eu", r"'us,!eu' both"),
        ("x" * 300, r"'x{60}\.\.\.' is no name"),
        ("u," * 10_000, r"has 20000 characters.*name fewer"),
    ],
)
def test_what_names_no_targets_is_refused_with_what_to_write(text: str, reason: str) -> None:
    with pytest.raises(InvalidChoice) as caught:
        parse(text)
    assert re.match(reason, str(caught.value))


def test_what_is_allowed_has_no_preferences() -> None:
    with pytest.raises(InvalidChoice, match=r"'us > eu' has preferences, which only multicluster/targets may: write"):
        parse("us > eu", ordered=False)


def test_flaws_name_the_field_as_it_was_written_and_the_remedy() -> None:
    annotations = {"multicluster/targets": "us eu", "multicluster.admiralty.io/allowed-targets": "us>eu"}
    (first, why), (second, _) = flaws(annotations)
    assert first == "metadata.annotations[multicluster/targets]"
    assert second == "metadata.annotations[multicluster.admiralty.io/allowed-targets]"
    assert why.endswith("remove it to choose none here")
    assert list(flaws({"multicluster/targets": "us > eu", "multicluster/allowed-targets": ""})) == []
    assert list(flaws(None)) == []


POD, OWNER, SPACE = "pod web-0", "Deployment web", "namespace shop"


@pytest.mark.parametrize(
    ("levels", "admitted", "source"),
    [
        ([Level(POD, "us"), Level(OWNER, "eu"), Level(SPACE, "ap")], ["us"], "targets of pod web-0 (us)"),
        ([Level(POD), Level(OWNER, "eu"), Level(SPACE, "ap")], ["eu"], "targets of Deployment web (eu)"),
        ([Level(POD), Level(OWNER), Level(SPACE, "ap")], ["ap"], "targets of namespace shop (ap)"),
        ([Level(POD, ""), Level(OWNER, "eu")], ["us", "eu", "ap"], "targets of pod web-0 (all)"),
        (
            [Level(POD, "us,eu"), Level(OWNER), Level(SPACE, None, "eu,ap")],
            ["eu"],
            "targets of pod web-0 (us,eu); allowed-targets of namespace shop (eu,ap)",
        ),
        (
            [Level("pod x", None, "us,eu"), Level(SPACE, None, "!us"), Level("flag", None, "")],
            ["eu"],
            "allowed-targets of pod x (us,eu); allowed-targets of namespace shop (!us); allowed-targets of flag (all)",
        ),
        ([Level(POD, "us"), Level(SPACE, None, "eu")], [], None),
    ],
)
def test_the_closest_level_chooses_and_every_level_bounds(
    levels: list[Level], admitted: list[str], source: str | None
) -> None:
    choice = combine(levels)
    assert choice is not None
    assert [target.title for target in ALL if choice.admits(target)] == admitted
    assert source is None or choice.source == source


def test_where_nobody_says_anything_there_is_no_choice() -> None:
    assert combine([level(POD, {"multicluster/placement": "web"}), level(SPACE, None)]) is None
    assert combine([]) is None


def test_a_refusal_names_who_says_so() -> None:
    choice = combine([level(OWNER, {"multicluster/targets": "us  >eu"}), level(SPACE, None)])
    assert choice is not None
    assert choice.refusal(AP) == "not in multicluster/targets of Deployment web (us >eu)"
    assert choice.misplaced(AP) == choice.refusal(AP)
    assert choice.refusal(EU) == choice.misplaced(EU) == ""
    assert [choice.preference(target) for target in ALL] == [0, 1, 2]


@pytest.mark.parametrize(
    ("levels", "flaw"),
    [
        ([Level(POD, "us eu"), Level(OWNER, "us")], "pod web-0: metadata.annotations[targets]: 'us eu' is no name"),
        (
            [Level(POD), Level(SPACE, None, "us > eu")],
            "namespace shop: metadata.annotations[allowed-targets]: 'us > eu' has preferences",
        ),
    ],
)
def test_where_it_is_not_known_what_is_meant_no_pod_is_sent_and_none_taken(levels: list[Level], flaw: str) -> None:
    choice = combine(levels)
    assert choice is not None
    assert choice.source.startswith(flaw)
    assert [target.title for target in ALL if choice.admits(target)] == []
    assert {choice.misplaced(target) for target in ALL} == {""}


def test_what_is_overridden_does_no_harm() -> None:
    choice = combine([Level(POD, "us"), Level(OWNER, "us eu")])
    assert choice is not None
    assert choice.admits(US)


def test_names_that_no_target_has_are_told() -> None:
    choice = combine([Level(POD, "us > eu,mars,clustertarget/us"), Level(SPACE, None, "!pluto")], frozenset({"us"}))
    assert choice is not None
    assert choice.unknown(frozenset({"eu"})) == ("clustertarget/us", "mars", "pluto")
    assert choice.unknown(frozenset({"us", "eu", "mars", "pluto"})) == ()


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        (Level(OWNER, "us"), Level(OWNER, "eu"), ("us", None)),
        (Level(OWNER, "us eu"), Level(OWNER, "eu", "eu,us"), ("eu", None)),
        (Level(OWNER, "us eu", "!us"), Level(OWNER, "eu", "eu,us"), ("eu", "!us")),
        (Level(OWNER, "us", "us>eu"), Level(OWNER, "eu", "eu,us"), ("us", "eu,us")),
        (Level(OWNER, "us eu"), Level(OWNER), (None, None)),
        (Level(OWNER, "us eu"), Level(OWNER, "us  eu"), ("us eu", None)),
        (Level(OWNER, "us eu"), None, ("us eu", None)),
        (Level(OWNER), Level(OWNER, "eu"), (None, None)),
    ],
)
def test_the_last_value_that_could_be_read_counts_in_place_of_one_that_cannot(
    now: Level, before: Level | None, expected: tuple[str | None, str | None]
) -> None:
    found = mended(now, before)
    assert (found.targets, found.allowed) == expected
