"""Which annotations of delegates come home. Pure."""

from dataclasses import dataclass, replace

from agent.api.labels import ANNOTATIONS_NOT_HOME, ANNOTATIONS_WITH_ADDRESSES, is_among


@dataclass(frozen=True)
class Homecoming:
    """What an installation has chosen."""

    only: frozenset[str] = frozenset()
    """Keys and domains that come home, and no others; empty: all but those that others act upon."""
    never: frozenset[str] = frozenset(ANNOTATIONS_NOT_HOME)
    """Keys and domains that do not, where `only` is empty."""

    def lets(self, key: str) -> bool:
        """Whether an annotation that is none of ours comes home."""
        return is_among(key, self.only) if self.only else not is_among(key, self.never)

    def without_addresses(self) -> "Homecoming":
        """The same for a target whose pods may have certain addresses only."""
        return replace(self, never=self.never | ANNOTATIONS_WITH_ADDRESSES)


USUAL = Homecoming()
