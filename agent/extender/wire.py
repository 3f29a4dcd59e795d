"""ExtenderBindingArgs and ExtenderBindingResult, as kube-scheduler writes and reads them. Pure."""

import re

import msgspec

from agent.kube.errors import UNDECODABLE

MAX_BODY_BYTES = 64 * 1024

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_UID = re.compile(r"[-.:_A-Za-z0-9]{1,128}")


class Malformed(ValueError):
    """A body that is no ExtenderBindingArgs; the message names the field."""


class BindingArgs(msgspec.Struct, frozen=True):
    """Request to bind a pod to a node."""

    name: str = msgspec.field(name="PodName")
    namespace: str = msgspec.field(name="PodNamespace")
    uid: str = msgspec.field(name="PodUID")
    node: str = msgspec.field(name="Node")


_decoder = msgspec.json.Decoder(BindingArgs)


def parse(body: bytes) -> BindingArgs:
    """Parse the scheduler's request.

    :raises Malformed: if it is invalid
    """
    try:
        asked = _decoder.decode(body)
    except UNDECODABLE as error:
        raise Malformed(f"the body is no ExtenderBindingArgs: {error}") from error
    # Names become parts of URLs.
    for field, value, shape in (
        ("PodNamespace", asked.namespace, _NAMESPACE),
        ("PodName", asked.name, _NAME),
        ("PodUID", asked.uid, _UID),
        ("Node", asked.node, _NAME),
    ):
        if not shape.fullmatch(value):
            raise Malformed(f"{field} {value[:64]!r} cannot be one")
    return asked


def result(error: str) -> bytes:
    """Return the response; an empty error means that the pod is bound."""
    return msgspec.json.encode({"Error": error})
