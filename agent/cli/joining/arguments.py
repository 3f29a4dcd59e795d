"""Meaning of command-line arguments: names, addresses, durations. Pure."""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from agent.api.roles import OPTIONAL_FEATURES
from agent.api.sourcepolicies import LONGEST_TOKEN_SECONDS
from agent.base import flag_values
from agent.cli.options import Failed

_LIMIT = 63
_TOKEN_LIFE = flag_values.duration(
    "10m",
    f"{LONGEST_TOKEN_SECONDS // 86400}d",
    "API servers give no token for less, and agents renew them before they end",
)

_HERE_ONLY = ("host.docker.internal", "kubernetes.docker.internal", "gateway.docker.internal")
_INSIDE_ONLY = (".svc", ".cluster.local")


class WrongUsage(Exception):
    """Options that contradict each other or cannot be parsed."""


def name_of(context: str) -> str:
    """Return a valid object name that resembles the context's name.

    Raises Failed if no valid character remains.
    """
    name = re.sub(r"[^a-z0-9]+", "-", context.lower()).strip("-")[:_LIMIT].rstrip("-")
    if not name:
        raise Failed(f"context {context!r} gives no name for a cluster: name it by --source-name or --target-name")
    return name


def by_context(option: str, values: Sequence[str], contexts: Sequence[str], only: str | None) -> dict[str, str]:
    """Return the values of an option by context: `CONTEXT=VALUE`, or a plain value for the context `only`.

    Raises WrongUsage.
    """
    found: dict[str, str] = {}
    for text in values:
        context, equals, value = text.partition("=")
        if not equals or context not in contexts:
            if only is None:
                known = ", ".join(contexts)
                raise WrongUsage(f"{option} {text}: say for which of the contexts: CONTEXT=VALUE (contexts: {known})")
            context, value = only, text
        if context in found:
            raise WrongUsage(f"{option} is given twice for context {context}")
        found[context] = value
    return found


def names(option: str, given: Sequence[str], contexts: Sequence[str]) -> dict[str, str]:
    """Return the names of clusters by context: given ones, or names made of the contexts. Raises WrongUsage, Failed."""
    if given and len(given) != len(contexts):
        raise WrongUsage(f"{option} is given {len(given)} times for {len(contexts)} contexts: once for each, or never")
    found = dict(zip(contexts, given, strict=True)) if given else {each: name_of(each) for each in contexts}
    for name in found.values():
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name) or len(name) > _LIMIT:
            raise WrongUsage(f"{option} {name}: lower-case letters, digits and dashes, {_LIMIT} at most")
    twice = {name for name in found.values() if list(found.values()).count(name) > 1}
    if twice:
        raise WrongUsage(
            f"{', '.join(sorted(twice))} would be the name of several clusters: tell them apart by {option}"
        )
    return found


def features(given: Sequence[str]) -> tuple[str, ...] | None:
    """Return the features that `--allow` names, separated by commas or repeated; None without the option.

    Raises WrongUsage.
    """
    found = [name.strip() for text in given for name in text.split(",") if name.strip()]
    for name in found:
        if name not in OPTIONAL_FEATURES:
            raise WrongUsage(f"--allow {name}: choose of {', '.join(OPTIONAL_FEATURES)}")
    return tuple(name for name in OPTIONAL_FEATURES if name in found) if given else None


def seconds_of(given: str) -> int:
    """Parse the lifetime of a token (`--token-duration`), in seconds. Raises WrongUsage."""
    try:
        return int(_TOKEN_LIFE.read(given.strip()))
    except ValueError as error:
        raise WrongUsage(f"--token-duration {given}: {error}") from None


def unreachable(server: str) -> str:
    """Return why pods of another cluster cannot reach an address, judging by the address alone; empty if they may."""
    host = (urlsplit(server).hostname or "").rstrip(".")
    if not host:
        return "has no host"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        if host == "localhost" or host.endswith(".localhost"):
            return "is a loopback address"
        if host in _HERE_ONLY:
            return "is known to this machine only"
        if host.endswith(_INSIDE_ONLY):
            return "is known inside its own cluster only"
        return ""
    if address.is_loopback:
        return "is a loopback address"
    if address.is_unspecified:
        return "is no address that one can connect to"
    if address.is_link_local:
        return "is a link-local address"
    return ""


def refusal(context: str, server: str) -> str:
    """Return why a target's address is refused, with the remedy; empty if it is accepted."""
    why = unreachable(server)
    if not why:
        return ""
    return (
        f"the API server of context {context} is at {server}, which {why}: pods of the source cannot reach it; give the"
        f" address under which they can, --server {context}=https://HOST:PORT, or, if your pods can, --allow-loopback"
    )


def missing_rights(cluster: str, denied: Mapping[str, str]) -> str:
    """Return the message about missing rights in a cluster: `denied` maps each `verb resource` to its purpose."""
    listed = "; ".join(f"{right} ({why})" for right, why in denied.items())
    return f"{cluster} does not let you: {listed}; ask its administrator for these rights, or choose another user"
