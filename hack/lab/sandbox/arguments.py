"""Arguments of a sandbox: parsed and checked. Pure."""

import re
from collections.abc import Sequence

from hack.lab.sandbox.errors import SandboxError
from hack.lab.sandbox.ipfamilies import VERSIONS, Family
from hack.lab.sandbox.plan import MAX_CLUSTERS, OLDEST, OLDEST_MINOR, NodeKind

_VERSION = re.compile(r"v?1\.(\d+)(\.\d+)?")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")


def parse_names(clusters: Sequence[str] | str) -> tuple[str, ...]:
    """Parse cluster names, given as a list or as `cd,us,eu`. Raises SandboxError for an invalid name."""
    names = tuple(part.strip() for part in clusters.split(",")) if isinstance(clusters, str) else tuple(clusters)
    for name in names:
        if not _NAME.fullmatch(name):
            raise SandboxError(f"cluster name {name!r}: use at most 40 lower-case letters, digits and dashes")
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise SandboxError(f"cluster name {min(repeated)!r} is given twice")
    if not 1 <= len(names) <= MAX_CLUSTERS:
        raise SandboxError(f"{len(names)} clusters: a sandbox has 1 to {MAX_CLUSTERS}")
    return names


def parse_nodes(text: str) -> tuple[NodeKind, int, int]:
    """Parse `kwok:5`, `real:1` or `real:1+kwok:5`. Return kind and number of the nodes, and the number of fake ones.

    Raises SandboxError.
    """
    first, plus, second = text.partition("+")
    kind, count = _nodes(first, text)
    if not plus:
        return kind, count, 0
    other, fakes = _nodes(second, text)
    if (kind, other) != ("real", "kwok"):
        raise SandboxError(f"nodes {text!r}: write real:1+kwok:N for fake nodes beside a real one")
    return kind, count, fakes


def _nodes(part: str, text: str) -> tuple[NodeKind, int]:
    kind, _, count = part.partition(":")
    if kind == "real" and count.isdecimal() and int(count) > 1:
        raise SandboxError(
            f"nodes {text!r}: a cluster has one real node, since each would need a network namespace of its own;"
            " write real:1, or use more clusters"
        )
    if kind == "real" and count == "1":
        return "real", 1
    if kind != "kwok" or not count.isdecimal() or int(count) > 1000:
        raise SandboxError(
            f"nodes {text!r}: write kwok:N, with N from 0 to 1000, such as kwok:5, or real:1, or real:1+kwok:5"
        )
    return "kwok", int(count)


def parse_family(text: str) -> Family:
    """Return the IP families of a sandbox. Raises SandboxError."""
    for family in VERSIONS:
        if text == family:
            return family
    raise SandboxError(f"IP family {text!r}: use ipv4, ipv6 or dual")


def parse_regions(pairs: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Parse regions given as `CLUSTER=REGION`; a cluster without one is its own region. Raises SandboxError."""
    regions = {name: name for name in names}
    for pair in pairs:
        cluster, equals, region = pair.partition("=")
        if not equals or cluster not in regions or not region:
            raise SandboxError(f"region {pair!r}: write CLUSTER=REGION, with one of the clusters {', '.join(names)}")
        regions[cluster] = region
    return regions


def parse_version(text: str) -> str:
    """Return the release of a version, such as `v1.30.14` for `1.30` or `1.30.14`. Raises SandboxError."""
    match = _VERSION.fullmatch(text)
    if not match or int(match[1]) < OLDEST_MINOR:
        raise SandboxError(f"Kubernetes {text!r}: use 1.{OLDEST_MINOR} or newer, such as {OLDEST[1:]}")
    if match[2]:
        return f"v{text.removeprefix('v')}"
    if int(match[1]) == OLDEST_MINOR:
        return OLDEST
    raise SandboxError(f"Kubernetes {text!r}: write the whole version, such as {text}.1, or 1.{OLDEST_MINOR}")


def parse_versions(pairs: Sequence[str], names: Sequence[str], kind: NodeKind) -> dict[str, str]:
    """Parse Kubernetes versions given as `CLUSTER=1.30`; other clusters have the default. Raises SandboxError."""
    if pairs and kind == "real":
        raise SandboxError("clusters with real nodes are all of one Kubernetes version: leave out either")
    versions = {}
    for pair in pairs:
        cluster, equals, version = pair.partition("=")
        if not equals or cluster not in names:
            raise SandboxError(f"version {pair!r}: write CLUSTER=1.{OLDEST_MINOR}, with one of {', '.join(names)}")
        versions[cluster] = parse_version(version)
    return versions


def parse_replicas(replicas: int, *, candidate_scheduler: bool) -> int:
    """Return the number of agents of each cluster. Raises SandboxError."""
    if replicas not in (1, 2) or (replicas == 2 and candidate_scheduler):
        raise SandboxError(f"{replicas} agents in each cluster: 1 or 2, with a candidate scheduler only 1")
    return replicas
