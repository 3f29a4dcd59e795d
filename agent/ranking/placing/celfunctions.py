"""Functions of Kubernetes and Open Cluster Management for CEL expressions, in addition to CEL's own.

They behave as in the CEL libraries of Kubernetes. Values of kinds that CEL lacks (quantities, versions, addresses)
are maps with one key, and separate types in the check of an expression.
"""

import ipaddress
import itertools
import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from agent.model.pattern import compile_pattern
from agent.model.quantity import InvalidQuantity, Quantity

Value = dict[str, str]
"""A quantity, version, address or range of addresses: its kind, and a text that is equal for equal values."""

_INT64 = 2**63
_NANO = 10**9
_SUMMED = ("int", "uint", "double")
_CHOSEN = (*_SUMMED, "bool", "string", "bytes")
_COMPARABLE = (*_CHOSEN, "duration", "timestamp")
"""Element types of lists that can be summed, returned (the library accepts no times from Python), and compared."""
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[A-Za-z-][\dA-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][\dA-Za-z-]*))*))?"
    r"(?:\+[\dA-Za-z-]+(?:\.[\dA-Za-z-]+)*)?",
    re.ASCII,
)


class Signature(msgspec.Struct, frozen=True):
    """One function for arguments of certain types; a member function has its first argument as receiver."""

    name: str
    parameters: tuple[str, ...]
    returns: str
    function: Callable[..., Any]
    member: bool = True


def parse_json(text: str) -> object:
    """Parse JSON; numbers are doubles, as in Go."""
    return json.loads(text, parse_int=float)


def quantity(text: str) -> Value:
    """Return a Kubernetes quantity; different notations of one amount give equal values."""
    return {"quantity": str(Quantity.of(text).nano)}


def semver(text: str) -> Value:
    """Return a version in three parts, without a leading v; build metadata is ignored."""
    if not _SEMVER.fullmatch(text):
        raise ValueError(f"{text!r} is not a semantic version such as 1.30.6")
    return {"semver": text.partition("+")[0]}


def ip(text: str) -> Value:
    """Return an IPv4 or IPv6 address, without a zone."""
    address = ipaddress.ip_address(text)
    if getattr(address, "scope_id", None) or getattr(address, "ipv4_mapped", None):
        raise ValueError(f"{text!r} is an address with a zone, or one of IPv4 written as IPv6")
    return {"ip": str(address)}


def cidr(text: str) -> Value:
    """Return a range of addresses; bits after the prefix are kept."""
    if not text.rpartition("/")[2].isdigit() or "/" not in text:
        raise ValueError(f"{text!r} is not a range of addresses such as 10.0.0.0/8")
    return {"cidr": str(ipaddress.ip_interface(text))}


def _nano(value: Value) -> int:
    return int(value["quantity"])


def _amount(value: Value | int) -> int:
    return value * _NANO if isinstance(value, int) else _nano(value)


@lru_cache(maxsize=1024)
def _precedence(text: str) -> tuple[Any, ...]:
    numbers, _, early = text.partition("-")
    parts = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in early.split(".")] if early else []
    return (*map(int, numbers.split(".")), not early, parts)


def _compare(left: Value, right: Value) -> int:
    if left.keys() != right.keys():
        raise ValueError("only values of one kind can be compared")
    one, other = ((_nano(each),) if "quantity" in each else _precedence(each["semver"]) for each in (left, right))
    return (one > other) - (one < other)


def _integer(value: Value) -> int:
    whole, rest = divmod(_nano(value), _NANO)
    if rest or not -_INT64 <= whole < _INT64:
        raise ValueError("the quantity is no integer of 64 bits")
    return whole


def _is(make: Callable[[str], Value]) -> Callable[[str], bool]:
    def can(text: str) -> bool:
        try:
            make(text)
        except (ValueError, InvalidQuantity):
            return False
        return True

    return can


def _part(number: int) -> Callable[[Value], int]:
    return lambda version: int(_precedence(version["semver"])[number])


def _find(text: str, pattern: str) -> str:
    found: Any = compile_pattern(pattern).search(text)
    return str(found[0]) if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    compiled: Any = compile_pattern(pattern)
    found = (str(each[0]) for each in compiled.finditer(text))
    return list(found if limit < 0 else itertools.islice(found, limit))


def _sum(values: Sequence[Any]) -> Any:
    total = sum(values[1:], values[0]) if values else 0
    if isinstance(total, int) and not -_INT64 <= total < _INT64:
        raise ValueError("the sum is no integer of 64 bits")
    return total


def _index(values: Sequence[object], wanted: object) -> int:
    return next((at for at, each in enumerate(values) if each == wanted), -1)


def _last_index(values: Sequence[object], wanted: object) -> int:
    return next((at for at in range(len(values) - 1, -1, -1) if values[at] == wanted), -1)


def _sorted(values: Sequence[Any]) -> bool:
    return all(values[at] <= values[at + 1] for at in range(len(values) - 1))


def _least(values: Sequence[Any]) -> Any:
    return min(values)


def _most(values: Sequence[Any]) -> Any:
    return max(values)


def _address(value: Value) -> Any:
    return ipaddress.ip_address(value["ip"])


def _range(value: Value) -> Any:
    return ipaddress.ip_interface(value["cidr"])


def _contains_ip(outer: Value, address: Value | str) -> bool:
    return _address(ip(address) if isinstance(address, str) else address) in _range(outer).network


def _contains_cidr(outer: Value, inner: Value | str) -> bool:
    within = _range(cidr(inner) if isinstance(inner, str) else inner).network
    whole = _range(outer).network
    return bool(within.version == whole.version and within.subnet_of(whole))


def _is_canonical(text: str) -> bool:
    return ip(text)["ip"] == text


def _is_global(value: Value) -> bool:
    address = _address(value)
    broadcast = str(address) == "255.255.255.255"
    local = address.is_unspecified or address.is_loopback or address.is_link_local or address.is_multicast
    return not (broadcast or local)


def _flag(attribute: str, *, multicast: bool | None = None) -> Callable[[Value], bool]:
    def has(value: Value) -> bool:
        address = _address(value)
        return bool(getattr(address, attribute)) and (multicast is None or address.is_multicast == multicast)

    return has


def _link_local_multicast(value: Value) -> bool:
    address = _address(value)
    lower, upper = ("224.0.0.0", "224.0.0.255") if address.version == 4 else ("ff02::", f"ff02:{'ffff:' * 6}ffff")
    return bool(ipaddress.ip_address(lower) <= address <= ipaddress.ip_address(upper))


def _of(name: str, *overloads: tuple[tuple[str, ...], str, Callable[..., Any]], member: bool = True) -> list[Signature]:
    return [Signature(name, parameters, returns, function, member) for parameters, returns, function in overloads]


def _ordered(kind: str) -> list[Signature]:
    return [
        Signature("isLessThan", (kind, kind), "bool", lambda left, right: _compare(left, right) < 0),
        Signature("isGreaterThan", (kind, kind), "bool", lambda left, right: _compare(left, right) > 0),
        Signature("compareTo", (kind, kind), "int", _compare),
    ]


def _made(name: str, kind: str, make: Callable[[str], Value]) -> list[Signature]:
    checked = f"is{name.upper() if len(name) < 5 else name.capitalize()}"
    return [
        Signature(name, ("string",), kind, make, member=False),
        Signature(checked, ("string",), "bool", _is(make), member=False),
    ]


def _arithmetic(name: str, sign: int) -> list[Signature]:
    def result(left: Value, right: Value | int) -> Value:
        return {"quantity": str(_nano(left) + sign * _amount(right))}

    return _of(name, (("Quantity", "Quantity"), "Quantity", result), (("Quantity", "int"), "Quantity", result))


QUANTITIES = (
    *_made("quantity", "Quantity", quantity),
    *_ordered("Quantity"),
    *_arithmetic("add", 1),
    *_arithmetic("sub", -1),
    Signature("sign", ("Quantity",), "int", lambda value: (_nano(value) > 0) - (_nano(value) < 0)),
    Signature("isInteger", ("Quantity",), "bool", lambda value: not _nano(value) % _NANO),
    Signature("asInteger", ("Quantity",), "int", _integer),
    Signature("asApproximateFloat", ("Quantity",), "double", lambda value: _nano(value) / _NANO),
)
VERSIONS = (
    *_made("semver", "Semver", semver),
    *_ordered("Semver"),
    Signature("major", ("Semver",), "int", _part(0)),
    Signature("minor", ("Semver",), "int", _part(1)),
    Signature("patch", ("Semver",), "int", _part(2)),
)
LISTS = (
    *(Signature("isSorted", (f"list<{kind}>",), "bool", _sorted) for kind in _COMPARABLE),
    *(Signature("min", (f"list<{kind}>",), kind, _least) for kind in _CHOSEN),
    *(Signature("max", (f"list<{kind}>",), kind, _most) for kind in _CHOSEN),
    *(Signature("sum", (f"list<{kind}>",), kind, _sum) for kind in _SUMMED),
    Signature("indexOf", ("list<dyn>", "dyn"), "int", _index),
    Signature("lastIndexOf", ("list<dyn>", "dyn"), "int", _last_index),
)
TEXTS = (
    Signature("find", ("string", "string"), "string", _find),
    Signature("findAll", ("string", "string"), "list<string>", _find_all),
    Signature("findAll", ("string", "string", "int"), "list<string>", _find_all),
    # The reference implementation has it as a member only, but documents it as a function.
    Signature("parseJSON", ("string",), "dyn", parse_json),
    Signature("parseJSON", ("string",), "dyn", parse_json, member=False),
)
ADDRESSES = (
    *_made("ip", "IP", ip),
    Signature("ip.isCanonical", ("string",), "bool", _is_canonical, member=False),
    Signature("family", ("IP",), "int", lambda value: _address(value).version),
    Signature("isUnspecified", ("IP",), "bool", _flag("is_unspecified")),
    Signature("isLoopback", ("IP",), "bool", _flag("is_loopback")),
    Signature("isLinkLocalMulticast", ("IP",), "bool", _link_local_multicast),
    Signature("isLinkLocalUnicast", ("IP",), "bool", _flag("is_link_local", multicast=False)),
    Signature("isGlobalUnicast", ("IP",), "bool", _is_global),
    *_made("cidr", "CIDR", cidr),
    *(Signature("containsIP", ("CIDR", kind), "bool", _contains_ip) for kind in ("IP", "string")),
    *(Signature("containsCIDR", ("CIDR", kind), "bool", _contains_cidr) for kind in ("CIDR", "string")),
    Signature("ip", ("CIDR",), "IP", lambda value: {"ip": str(_range(value).ip)}),
    Signature("masked", ("CIDR",), "CIDR", lambda value: {"cidr": str(_range(value).network)}),
    Signature("prefixLength", ("CIDR",), "int", lambda value: _range(value).network.prefixlen),
)
FUNCTIONS: tuple[Signature, ...] = (*QUANTITIES, *VERSIONS, *LISTS, *TEXTS, *ADDRESSES)
LACKING = frozenset({"url", "isURL", "format", "format.named"})
"""Functions that cel-go's environment has and ours lacks."""
