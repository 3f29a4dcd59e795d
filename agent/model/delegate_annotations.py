"""Annotations of delegates that are copied to proxy pods. Pure."""

from dataclasses import dataclass, replace

from agent.api.labels import ANNOTATIONS_NOT_HOME, ANNOTATIONS_WITH_ADDRESSES, is_among


@dataclass(frozen=True)
class Homecoming:
    """Annotations that an installation copies to proxy pods, for one target."""

    only: frozenset[str] = frozenset()
    """Keys and domains to copy exclusively; empty to copy all but `never`."""
    never: frozenset[str] = frozenset(ANNOTATIONS_NOT_HOME)
    """Keys and domains not to copy; ignored if `only` is not empty."""
    addresses: bool = True
    """Whether to copy keys from which network plugins take a pod's addresses."""

    def lets(self, key: str) -> bool:
        """Return True if an annotation without a prefix of ours is copied."""
        chosen = is_among(key, self.only) if self.only else not is_among(key, self.never)
        return chosen and not self.withholds(key)

    def withholds(self, key: str) -> bool:
        """Return True for keys with addresses if the target's pods may have only certain addresses."""
        return not self.addresses and is_among(key, ANNOTATIONS_WITH_ADDRESSES)

    def without_addresses(self) -> "Homecoming":
        """Return the same choice for a target whose pods may have only certain addresses."""
        return replace(self, addresses=False)


USUAL = Homecoming()
