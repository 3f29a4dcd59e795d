"""Human-readable amounts and times. Pure."""

from datetime import datetime

from agent.model.quantity import InvalidQuantity, Quantity

_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
NOTHING = "-"


def age(seconds: float) -> str:
    """Format an age like kubectl: 45s, 12m, 5h, 3d."""
    whole = max(0, int(seconds))
    for size, unit, limit in ((1, "s", 120), (60, "m", 120), (3600, "h", 48)):
        if whole < size * limit:
            return f"{whole // size}{unit}"
    return f"{whole // 86400}d"


def since(moment: datetime | None, now: datetime) -> str:
    """Format the age of a time."""
    return age((now - moment).total_seconds()) if moment is not None else NOTHING


def cores(text: str) -> str:
    """Format an amount of CPU in cores: 12, 0.5."""
    amount = _amount(text)
    return NOTHING if amount is None else f"{round(amount.nano / 10**9, 1):g}"


def size(text: str) -> str:
    """Format an amount of memory: 512Mi, 1.5Gi."""
    amount = _amount(text)
    if amount is None:
        return NOTHING
    value, power = float(amount.value), 0
    while abs(value) >= 1024 and power < len(_UNITS) - 1:
        value, power = value / 1024, power + 1
    return f"{round(value, 1):g}{_UNITS[power]}"


def milliseconds(seconds: float | None) -> str:
    """Format seconds as whole milliseconds."""
    return NOTHING if seconds is None else f"{seconds * 1000:.0f}ms"


def _amount(text: str) -> Quantity | None:
    try:
        return Quantity.of(text) if text else None
    except InvalidQuantity:
        return None
