"""Addresses of a LoadBalancer's or Ingress's copies in targets, published on the original. Pure.

The annotation `publish-addresses` requests this. Its value is `true`, or the key of a further annotation with all
addresses, the original's first, for example for a controller of DNS records.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agent.api import labels, names

Raw = Mapping[str, Any]
Found = Mapping[str, Sequence[str] | None]
"""Addresses by virtual node; None if they are unknown at the moment."""

MOST = 16
"""Maximum number of addresses of one cluster, since a target may report any number; load balancers have few."""
_decode = msgspec.json.Decoder(dict[str, list[str]]).decode


class InvalidRequest(ValueError):
    """An invalid value of `publish-addresses`."""


class Request(msgspec.Struct, frozen=True):
    """Parsed value of `publish-addresses`."""

    wanted: bool
    key: str = ""
    """Key of the annotation with the list of all addresses; empty for none."""


NOT_WANTED = Request(wanted=False)


def request(annotations: Mapping[str, str]) -> Request:
    """Parse `publish-addresses` among the annotations of an original.

    :raises InvalidRequest: if its value is neither true, false nor a valid key
    """
    said = names.annotation(annotations, names.PUBLISH_ADDRESSES)
    if said in (None, "false"):
        return NOT_WANTED
    if said == "true":
        return Request(wanted=True)
    assert said is not None
    if (
        labels.is_key(said)
        and "/" in said
        and not names.is_ours(said)
        and not said.startswith("kubectl.kubernetes.io/")
    ):
        return Request(wanted=True, key=said)
    raise InvalidRequest(
        f"annotation {names.SHORT_PREFIX}{names.PUBLISH_ADDRESSES} is {said[:100]!r}: write true, false, or the key of"
        " the annotation that is to list the addresses, such as external-dns.alpha.kubernetes.io/target"
    )


def of(obj: Raw) -> list[str]:
    """Return the valid addresses in the `loadBalancer` status of a Service or Ingress, at most MOST."""
    listed = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    found = (each.get("ip") or each.get("hostname") for each in listed if isinstance(each, Mapping))
    return list(dict.fromkeys(str(each) for each in found if _is_address(each)))[:MOST]


def told(annotations: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the published addresses of an original's copies, by virtual node; {} if missing or invalid."""
    try:
        return _decode(annotations.get(names.ANNOTATION_ADDRESSES) or "{}")
    except (msgspec.DecodeError, RecursionError):
        return {}


def changes(original: Raw, asked: Request, found: Found) -> dict[str, str | None]:
    """Return the annotations of an original to change; None removes one.

    :param found: addresses in all targets that may have a copy, without targets that are being removed
    """
    annotations: Mapping[str, str] = original["metadata"].get("annotations") or {}
    before = told(annotations)
    copies = {node: list(before.get(node, ()) if each is None else each) for node, each in found.items()}
    copies = {node: each for node, each in sorted(copies.items()) if each} if asked.wanted else {}
    every = list(dict.fromkeys([*of(original), *(address for each in copies.values() for address in each)]))
    wanted: dict[str, str | None] = {
        names.ANNOTATION_ADDRESSES: msgspec.json.encode(copies).decode() if copies else None,
        names.ANNOTATION_ADDRESSES_IN: asked.key or None,
    }
    if asked.key:
        wanted[asked.key] = ",".join(every) or None
    if (was := annotations.get(names.ANNOTATION_ADDRESSES_IN)) and was != asked.key:
        wanted[was] = None
    return {key: value for key, value in wanted.items() if annotations.get(key) != value}


def _is_address(text: Any) -> bool:
    if not isinstance(text, str):
        return False
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return labels.is_name(text)
    return True
