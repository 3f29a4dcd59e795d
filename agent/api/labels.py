"""What API servers take as a key and as a value of a label."""

import re

_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_DOMAIN_LIMIT = 253


def is_key(text: str) -> bool:
    """Whether it is a name of at most 63 characters, with or without a DNS subdomain and a slash before it."""
    domain, slash, name = text.rpartition("/")
    if slash and (len(domain) > _DOMAIN_LIMIT or not _DOMAIN.fullmatch(domain)):
        return False
    return bool(_PART.fullmatch(name))


def is_value(text: str) -> bool:
    """Whether it is empty, or at most 63 characters that begin and end with a letter or a digit."""
    return not text or bool(_PART.fullmatch(text))
