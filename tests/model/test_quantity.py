import contextlib
import re
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.api.crds import crds
from agent.api.crds.schema import QUANTITY
from agent.model.quantity import LARGEST, Format, InvalidQuantity, Quantity, add, parse
from tests.examples import examples

NANO = 10**9
SYNTAX = re.compile(
    r"[+-]?([0-9]{1,80}(\.[0-9]{0,5})?|\.[0-9]{1,80})(Ki|Ei|[numkMGTPE]|[eE][+-]?[0-9]{1,4})?", re.ASCII
)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("0", Fraction(0)),
        ("1", Fraction(1)),
        ("+1", Fraction(1)),
        ("-1", Fraction(-1)),
        ("100m", Fraction(1, 10)),
        ("1.5Gi", Fraction(3 * 2**29)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("1E", Fraction(10**18)),
        ("1e3", Fraction(1000)),
        ("1E-3", Fraction(1, 1000)),
        ("0.3Ki", Fraction("307.2")),
        ("123456789012345678901234567890", Fraction(123456789012345678901234567890)),
        ("7n", Fraction(7, NANO)),
        ("3u", Fraction(3, 10**6)),
    ],
)
def test_quantities_are_read_exactly(text: str, want: Fraction) -> None:
    assert Fraction(parse(text).nano, NANO) == want


@pytest.mark.parametrize("value", [2, 0.5, "2", 1e-7])
def test_json_numbers_are_quantities_too(value: str | int | float) -> None:
    assert parse(value).nano == round(float(value) * NANO)


def test_what_is_finer_than_a_billionth_is_rounded_away_from_zero() -> None:
    assert parse("0.1n").nano == 1
    assert parse("-0.1n").nano == -1


@pytest.mark.parametrize("text", ["", "x", "1x", "1 Gi", "Gi", "1KI", "1ki", "1e", "--1", "1.2.3", "1e3Ki", "٣", "1\n"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidQuantity):
        parse(text)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        ("1000", "1k"),
        ("1024", "1024"),
        ("1024Ki", "1Mi"),
        ("1.5Gi", "1536Mi"),
        ("1000Ki", "1000Ki"),
        ("0.5Ki", "512"),
        ("0.3Ki", "307200m"),
        ("1e3", "1e3"),
        ("1000000e3", "1e9"),
        ("0Gi", "0"),
        ("1000.9765625Ki", "1025k"),
        ("-1024Ki", "-1Mi"),
        ("16393292Ki", "16393292Ki"),
        ("1024Ei", "1024Ei"),
        ("1000E", "1000E"),
        ("110", "110"),
    ],
)
def test_quantities_are_written_as_kubernetes_writes_them(text: str, want: str) -> None:
    assert str(parse(text)) == want


FORMATS: st.SearchStrategy[Format] = st.sampled_from(["decimal", "binary", "exponent"])
QUANTITIES = st.builds(
    Quantity, st.integers(-(10**30), 10**30) | st.integers(-(2**70), 2**70).map(lambda n: n * NANO), FORMATS
)


@given(QUANTITIES)
def test_writing_and_reading_gives_the_same_amount(quantity: Quantity) -> None:
    assert parse(str(quantity)).nano == quantity.nano


@given(QUANTITIES)
def test_what_is_written_is_canonical(quantity: Quantity) -> None:
    text = str(quantity)
    assert str(parse(text)) == text


@given(st.lists(QUANTITIES, min_size=1))
def test_sums_are_exact(quantities: list[Quantity]) -> None:
    total = quantities[0]
    for quantity in quantities[1:]:
        total += quantity
    assert total.nano == sum(quantity.nano for quantity in quantities)


def test_a_sum_is_written_as_its_first_part_that_is_not_zero() -> None:
    assert add("1Gi", "1Gi") == "2Gi"
    assert add("0", "1Gi") == "1Gi"
    assert add("100m", "900m") == "1"
    assert add("1Ki", "1") == "1025"


def test_whole_units_are_rounded_up() -> None:
    assert parse("1500m").value == 2
    assert parse("1n").value == 1
    assert parse("2Ki").value == 2048


@pytest.mark.parametrize(
    "text", ["9" * 5000, "0." + "0" * 5000, "9" * 5000 + "x", "1e999999999", "1e-999999999", "1e999", "1" + "0" * 37]
)
def test_what_no_cluster_has_is_refused_in_a_line(text: str) -> None:
    with pytest.raises(InvalidQuantity) as caught:
        parse(text)
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize(
    "value",
    [10**5000, 1e300, True, None, [], {"cpu": 1}],
    ids=["too many digits", "too much", "a flag", "nothing", "a list", "an object"],
)
def test_json_that_is_no_amount_is_refused(value: Any) -> None:
    with pytest.raises(InvalidQuantity):
        parse(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@settings(max_examples=examples(300))
@given(JSON | st.text(alphabet="0123456789.+-eEkKMGTPinum", max_size=100) | st.from_regex(SYNTAX, fullmatch=True))
def test_whatever_is_read_gives_an_amount_that_can_be_written_and_read_again_or_the_error(value: Any) -> None:
    try:
        quantity = parse(value)
    except InvalidQuantity:
        return
    assert abs(quantity.nano) <= LARGEST * NANO
    assert parse(str(quantity)).nano == quantity.nano


@given(st.from_regex(SYNTAX, fullmatch=True))
def test_what_is_an_amount_here_is_one_to_the_pattern_of_the_crds(text: str) -> None:
    schema = msgspec.json.encode(crds()).decode()
    assert msgspec.json.encode(QUANTITY["pattern"]).decode() in schema
    with contextlib.suppress(InvalidQuantity):
        parse(text)
        assert re.fullmatch(QUANTITY["pattern"], text, re.ASCII)
        assert len(text) <= QUANTITY["maxLength"]
