"""What is kept of a Secret with a token: whose it is and until when it is good, and none of its content. Pure."""

import msgspec

from agent.api import names


class _Annotations(msgspec.Struct, omit_defaults=True):
    parent: str = msgspec.field(default="", name=names.ANNOTATION_PARENT_NAME)
    expires: str = msgspec.field(default="", name=names.ANNOTATION_TOKEN_EXPIRES)


class _Metadata(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str
    uid: str = ""
    resource_version: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None
    annotations: _Annotations | None = None


class _Secret(msgspec.Struct):
    metadata: _Metadata


_decoder = msgspec.json.Decoder(_Secret)
_encode = msgspec.json.Encoder().encode


def reduce(raw: bytes) -> bytes:
    """The same Secret without its content."""
    return _encode(_decoder.decode(raw))
