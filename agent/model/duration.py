"""Durations in the format of Kubernetes (`60s`, `1m30s`, `100ms`), with days, or as numbers of seconds. Pure."""

import contextlib
import math
import re

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600, "d": 86400}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h|d)", re.ASCII)
_WHOLE = re.compile(f"(?:{_PART.pattern})+", re.ASCII)
_WRITTEN = (("h", 3600), ("m", 60))


class InvalidDuration(ValueError):
    """A text that is not a duration."""


def seconds(text: str) -> float:
    """Parse a duration into seconds, 0 or more.

    :raises InvalidDuration: if the text is invalid or negative
    """
    found = math.nan
    if _WHOLE.fullmatch(text):
        found = math.fsum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(text))
    else:
        with contextlib.suppress(ValueError):
            found = float(text)
    if not 0 <= found < math.inf:
        raise InvalidDuration("must be a duration such as 60s, 1m30s or 100ms, or a number of seconds")
    return found


def written(length: float) -> str:
    """Format seconds in the format of Kubernetes, such as `1m30s`."""
    if length < 1:
        return f"{length * 1000:g}ms" if length else "0s"
    parts = []
    for unit, size in _WRITTEN:
        count, length = divmod(length, size)
        if count:
            parts.append(f"{count:.0f}{unit}")
    return "".join(parts) + (f"{length:g}s" if length or not parts else "")
