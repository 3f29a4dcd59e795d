"""Exact Kubernetes quantities (`100m`, `1.5Gi`, `2e3`), as whole numbers of 10^-9, the finest unit of Kubernetes.

Parsing and canonical form follow apimachinery's `resource.Quantity`. That limits amounts to 2^63; sums are
exact beyond that, too.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal, Self

Format = Literal["decimal", "binary", "exponent"]

_NANO = 10**9
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
LENGTH = 64
"""Maximum length of a quantity in characters; API servers write at most 20."""
LARGEST = 10**36
"""In base units (cores, bytes); sums of such amounts can still be parsed."""
_INTEGER_BITS = 8 * LENGTH
_SHOWN = 32
_SYNTAX = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:([eE][+-]?\d{1,3})|(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]?))", re.ASCII)


class InvalidQuantity(ValueError):
    """Text that is not a quantity."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount in 10^-9 units, and its format."""

    nano: int
    format: Format = "decimal"

    @classmethod
    def of(cls, value: str | int | float) -> Self:
        """Parse a string or JSON number; round digits beyond 10^-9 away from zero.

        :raises InvalidQuantity: if it is not a quantity
        """
        if type(value) is not str:
            value = _number(value)
        nano, format = _parse(value)
        return cls(nano, format)

    @property
    def value(self) -> int:
        """Whole base units (cores, bytes), rounded up like in Kubernetes."""
        return -(-self.nano // _NANO)

    def __add__(self, other: "Quantity") -> "Quantity":
        """Return the exact sum in the format of the left operand, or of the right one if the left one is zero."""
        return Quantity(self.nano + other.nano, self.format if self.nano else other.format)

    def __str__(self) -> str:
        if not self.nano:
            return "0"
        whole, rest = divmod(self.nano, _NANO)
        # Kubernetes writes other binary amounts without suffix, and parses that as decimal: this format is
        # stable.
        if self.format == "binary" and not rest and whole % 1024 == 0:
            power = 0
            while power < len(_BINARY) and whole % 1024 == 0:
                whole //= 1024
                power += 1
            return f"{whole}{_BINARY[power - 1]}"
        return self._decimal()

    def _decimal(self) -> str:
        mantissa, exponent = self.nano, -9
        while mantissa % 1000 == 0 and exponent < 18:
            mantissa //= 1000
            exponent += 3
        if self.format == "exponent":
            return f"{mantissa}e{exponent}" if exponent else str(mantissa)
        return f"{mantissa}{_DECIMAL_SUFFIX[exponent]}"


def parse(value: str | int | float) -> Quantity:
    """Return `Quantity.of(value)`."""
    return Quantity.of(value)


def add(left: str | int | float, right: str | int | float) -> str:
    """Return the sum of two quantities in canonical form."""
    return str(Quantity.of(left) + Quantity.of(right))


def _number(value: object) -> str:
    """Return a JSON number as text. Python refuses to convert integers of thousands of digits."""
    if type(value) is float or (type(value) is int and value.bit_length() <= _INTEGER_BITS):
        return str(value)
    raise InvalidQuantity(f"{type(value).__name__} is not a quantity such as 500m, 2, 1.5Gi or 1e3")


@lru_cache(maxsize=4096)
def _parse(text: str) -> tuple[int, Format]:
    match = _SYNTAX.fullmatch(text) if len(text) <= LENGTH else None
    if match is None:
        shown = repr(text) if len(text) <= LENGTH else f"{text[:_SHOWN]!r}... ({len(text)} characters)"
        raise InvalidQuantity(f"{shown} is not a quantity such as 500m, 2, 1.5Gi or 1e3")
    sign, digits, exponent, suffix = match.groups()
    number = Fraction(digits)
    format: Format = "decimal"
    if exponent:
        number *= Fraction(10) ** int(exponent[1:])
        format = "exponent"
    elif suffix in _BINARY:
        number *= 1024 ** (_BINARY.index(suffix) + 1)
        format = "binary"
    else:
        number *= Fraction(10) ** _DECIMAL[suffix]
    if number > LARGEST:
        raise InvalidQuantity(f"{text!r} is more than any cluster has")
    scaled = number * _NANO
    nano = -(-scaled.numerator // scaled.denominator)
    return (-nano if sign == "-" else nano), format
