"""Identity in the certificate request of a member's agent. No I/O.

Open Cluster Management ignores unusual requests silently. Flotilla emits an event with the violated rule.
"""

import base64
import hashlib
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from agent.api.conditions import is_true
from agent.api.names.hub import CLIENT_SIGNER, MEMBERS_GROUP, USER_PREFIX
from agent.api.names.ocm import LABEL_CLUSTER_NAME

Raw = Mapping[str, Any]

USAGES = frozenset(("digital signature", "key encipherment", "client auth"))
DECIDED = ("Approved", "Denied", "Failed")
"""Conditions of a CertificateSigningRequest that no longer waits."""
_BYTES = 16 * 1024
"""Maximum size of a request in bytes; a request with an elliptic key has 500."""
_PEM = re.compile(
    rb"-----BEGIN CERTIFICATE REQUEST-----\r?\n([A-Za-z0-9+/=\r\n]+)\n-----END CERTIFICATE REQUEST-----\s*"
)
"""Pattern of a request with exactly one PEM block: signers skip unreadable blocks and could sign a second one."""
_EXTENSIONS = x509.ObjectIdentifier("1.2.840.113549.1.9.14")
"""Type of the attributes with requested extensions. Signers read all of them, `cryptography` only the first."""


class Identity(msgspec.Struct, frozen=True):
    """Identity of a member's agent."""

    cluster: str
    agent: str
    key: str
    """Fingerprint of its public key, `sha256:` and 64 hex digits."""

    @property
    def user(self) -> str:
        """Name of the agent's user."""
        return f"{USER_PREFIX}{self.cluster}:{self.agent}"


class Unrecognised(Exception):
    """Raised for a request that is not one of a member's agent; the message is the violated rule."""


def read(request: Raw) -> Identity:
    """Return the identity in a CertificateSigningRequest. Raises Unrecognised."""
    spec = request["spec"]
    cluster = (request["metadata"].get("labels") or {}).get(LABEL_CLUSTER_NAME, "")
    if spec.get("signerName") != CLIENT_SIGNER:
        raise Unrecognised(f"spec.signerName is {spec.get('signerName')!r}: it must be {CLIENT_SIGNER}")
    requester = str(spec.get("username") or "")
    if requester.startswith(USER_PREFIX) and not requester.startswith(f"{USER_PREFIX}{cluster}:"):
        raise Unrecognised(f"{requester} asks for it, which is an agent of another member")
    if others := sorted(set(spec.get("usages") or ()) - USAGES):
        raise Unrecognised(f"spec.usages has {', '.join(others)}: only {', '.join(sorted(USAGES))} are allowed")
    parsed = _parsed(spec.get("request") or "")
    if any(each.oid == _EXTENSIONS for each in parsed.attributes):
        raise Unrecognised("spec.request asks for extensions, such as alternative names: it may have none")
    organisations = set(_values(parsed, NameOID.ORGANIZATION_NAME)) - {MEMBERS_GROUP}
    if organisations != {USER_PREFIX + cluster}:
        raise Unrecognised(
            f"the organisations in spec.request are {sorted(organisations)}: beside {MEMBERS_GROUP} there must be"
            f" {USER_PREFIX}{cluster} alone, by the label {LABEL_CLUSTER_NAME}"
        )
    names = _values(parsed, NameOID.COMMON_NAME)
    parts = names[0].removeprefix(USER_PREFIX).split(":") if len(names) == 1 else []
    if len(parts) != 2 or not all(parts) or not names[0].startswith(USER_PREFIX) or parts[0] != cluster:
        raise Unrecognised(f"the common name in spec.request is {names}: it must be {USER_PREFIX}{cluster}:AGENT")
    return Identity(cluster, parts[1], fingerprint(parsed))


def fingerprint(request: x509.CertificateSigningRequest) -> str:
    """Return the fingerprint of the public key in a request."""
    encoding, form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return "sha256:" + hashlib.sha256(request.public_key().public_bytes(encoding, form)).hexdigest()


def is_pending(request: Raw) -> bool:
    """Return whether a request is neither approved nor denied, and has not failed."""
    conditions = (request.get("status") or {}).get("conditions")
    return not any(is_true(conditions, each) for each in DECIDED)


def _parsed(encoded: str) -> x509.CertificateSigningRequest:
    if len(encoded) > _BYTES:
        raise Unrecognised(f"spec.request has {len(encoded)} characters: at most {_BYTES} are read")
    try:
        block = _PEM.fullmatch(base64.b64decode(encoded, validate=True))
        if block is None:
            raise Unrecognised("spec.request is no PEM certificate request: it must be one block and nothing else")
        parsed = x509.load_der_x509_csr(base64.b64decode(re.sub(rb"[\r\n]", b"", block[1]), validate=True))
        # These are parsed only when they are read.
        _ = parsed.subject, parsed.attributes, parsed.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise Unrecognised(f"spec.request is no PEM certificate request: {error}") from error
    return parsed


def _values(request: x509.CertificateSigningRequest, oid: x509.ObjectIdentifier) -> list[str]:
    return [str(each.value) for each in request.subject.get_attributes_for_oid(oid)]
