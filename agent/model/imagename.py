"""Names of images, and whether one begins with a prefix as a registry understands it. Pure.

Compared by whole parts: `registry.example/team` allows `registry.example/team/web:1`, not `registry.example/team-x`.
An image has to name its registry, since what `nginx` or `team/nginx` means is up to each node's runtime, which may even
take it for the beginning of the digest of an image that it has.
"""

import re
from collections.abc import Iterable

_PART = re.compile(r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{1,5})?|\[[0-9a-fA-F:]+\](?::[0-9]{1,5})?")
_LIMIT = 512
"""Characters of a name; runtimes take no repository with more than 255."""
_DOCKER_HUB, _LIBRARY = "docker.io", "library"


def flaw(prefix: str) -> str:
    """What is wrong with a prefix, and the remedy; empty if nothing is."""
    if _parts(prefix.removesuffix("/")):
        return ""
    return (
        f"{prefix[:_LIMIT]!r} is no beginning of an image's name: write the registry's host and then whole parts of the"
        f" path, without tag or digest, as {_DOCKER_HUB}/{_LIBRARY} or registry.example:5000/team"
    )


def why_not(image: object, prefixes: Iterable[str]) -> str:
    """Why an image is not allowed; empty if it begins with one of the prefixes. An invalid prefix allows nothing."""
    if not isinstance(image, str) or not (repository := _repository(image)):
        return "which names no registry: write it in full, as registry.example/team/nginx"
    for prefix in prefixes:
        parts = _parts(prefix.removesuffix("/"))
        if parts and repository[: len(parts)] == parts:
            return ""
    return "which begins with none of the prefixes there"


def _repository(image: str) -> list[str]:
    """The parts of an image's name without tag and digest; empty if it has no registry, or is no name."""
    if len(image) > _LIMIT:
        return []
    name = image.partition("@")[0]
    before, slash, last = name.rpartition("/")
    parts = _parts(before + slash + last.partition(":")[0]) if slash else []
    if len(parts) == 2 and parts[0] == _DOCKER_HUB:
        return [_DOCKER_HUB, _LIBRARY, parts[1]]
    return parts if len(parts) > 1 else []


def _parts(name: str) -> list[str]:
    """Host and path, empty if it does not begin with a host or is no name."""
    host, *path = name.split("/") if len(name) <= _LIMIT else [""]
    if not _HOST.fullmatch(host) or not ("." in host or ":" in host or host == "localhost"):
        return []
    return [host, *path] if all(_PART.fullmatch(part) for part in path) else []
