"""Addresses that copies of a LoadBalancer or an Ingress have in targets, as their original tells of them. Pure.

`publish-addresses` asks for it: `true`, or the key of an annotation that others read, such as a controller that keeps
DNS records; there all addresses are listed, those of the original first.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agent.api import labels, names

Raw = Mapping[str, Any]
Found = Mapping[str, Sequence[str] | None]
"""Addresses by virtual node; None where they are not known at the moment."""

MOST = 16
"""Addresses of one cluster that are told of: load balancers have few, and a target may say anything."""
_decode = msgspec.json.Decoder(dict[str, list[str]]).decode


class InvalidRequest(ValueError):
    """A value of `publish-addresses` that asks for nothing that can be."""


class Request(msgspec.Struct, frozen=True):
    """What is asked for."""

    wanted: bool
    key: str = ""
    """The annotation with the list, empty for none."""


NOT_WANTED = Request(wanted=False)


def request(annotations: Mapping[str, str]) -> Request:
    """What the annotations of an original ask for.

    :raises InvalidRequest: if that makes no sense
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
    """Addresses of the load balancer of a Service or Ingress, by its status."""
    listed = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    found = (each.get("ip") or each.get("hostname") for each in listed if isinstance(each, Mapping))
    return list(dict.fromkeys(str(each) for each in found if _is_address(each)))[:MOST]


def told(annotations: Mapping[str, str]) -> dict[str, list[str]]:
    """What an original tells of its copies; nothing where that cannot be read."""
    try:
        return _decode(annotations.get(names.ANNOTATION_ADDRESSES) or "{}")
    except (msgspec.DecodeError, RecursionError):
        return {}


def changes(original: Raw, asked: Request, found: Found) -> dict[str, str | None]:
    """Annotations of an original that are to change; None takes one away.

    :param found: of every target that may have a copy and is not on its way out
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
