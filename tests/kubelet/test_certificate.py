"""Serving certificate: the request, and the handling of the signer's answer."""

import base64
import datetime
import ssl
from typing import Any

import msgspec
import pytest
from cryptography import x509

from agent.api.kinds import CERTIFICATE_REQUESTS
from agent.base.certificates import new_key, validity
from agent.kube.store import Object
from agent.kubelet.certificate import context, is_abandoned, outcome_of, renew_in, request, self_signed

KEY = new_key()


@pytest.mark.parametrize("address", ["10.1.2.3", "fd00::5"])
def test_a_request_is_one_that_the_signer_of_kubelets_takes(address: str) -> None:
    spec = request(KEY, address, "kubernetes.io/kubelet-serving")["spec"]
    found = x509.load_pem_x509_csr(base64.b64decode(spec["request"]))
    assert found.subject.rfc4514_string() == "CN=system:node:admiralty,O=system:nodes"
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == [address]
    assert spec["usages"] == ["digital signature", "server auth"]
    assert spec["signerName"] == "kubernetes.io/kubelet-serving"


def told(status: dict[str, Any]) -> Object:
    return Object(CERTIFICATE_REQUESTS, msgspec.json.encode({"metadata": {"name": "csr-1"}, "status": status}))


def test_a_request_waits_until_there_is_a_certificate_or_a_verdict() -> None:
    approved = {"type": "Approved", "status": "True"}
    assert outcome_of(told({})) is None
    assert outcome_of(told({"conditions": [approved]})) is None
    signed = outcome_of(told({"conditions": [approved], "certificate": base64.b64encode(b"PEM").decode()}))
    assert signed is not None
    assert signed.certificate == b"PEM"


@pytest.mark.parametrize("type", ["Denied", "Failed"])
def test_a_refusal_is_told_with_its_reason(type: str) -> None:
    found = outcome_of(told({"conditions": [{"type": type, "status": "True", "message": "not on my watch"}]}))
    assert found is not None
    assert found.problem == f"certificate request csr-1 is {type.lower()}: not on my watch"


def test_a_request_that_somebody_removed_is_over() -> None:
    found = outcome_of(None)
    assert found is not None
    assert "removed" in found.problem


@pytest.mark.parametrize(
    ("metadata", "spec", "status", "abandoned"),
    [
        ({}, {}, {}, True),
        ({"uid": "mine"}, {}, {}, False),
        ({"name": "csr-abc"}, {}, {}, False),
        ({"creationTimestamp": "2026-01-01T00:00:06Z"}, {}, {}, False),
        ({}, {"username": "somebody"}, {}, False),
        ({}, {}, {"conditions": [{"type": "Approved", "status": "True"}]}, False),
    ],
    ids=["as ours", "ours itself", "of another tool", "later", "of another account", "decided"],
)
def test_only_earlier_requests_of_the_same_account_that_nobody_decided_about_are_abandoned(
    metadata: dict[str, str], spec: dict[str, str], status: dict[str, Any], abandoned: bool
) -> None:
    def asked(uid: str) -> dict[str, Any]:
        named = {"name": f"admiralty-{uid}", "uid": uid, "creationTimestamp": "2026-01-01T00:00:05Z"}
        return {"metadata": named, "spec": {"username": "agent"}}

    other = asked("other")
    other = {"metadata": other["metadata"] | metadata, "spec": other["spec"] | spec, "status": status}
    assert is_abandoned(other, asked("mine")) is abandoned


def test_a_certificate_is_renewed_well_before_it_ends() -> None:
    certificate = self_signed(KEY, "10.1.2.3").certificate
    start, life = validity(certificate).start, datetime.timedelta(days=365).total_seconds()
    for _ in range(100):
        assert 0.69 * life < renew_in(certificate, start) < 0.91 * life
    assert renew_in(certificate, start + datetime.timedelta(days=400)) == 1.0


def test_servers_take_no_tls_before_1_2_and_resume_no_session() -> None:
    made = context(self_signed(KEY, "10.1.2.3"), "")
    assert made.minimum_version == ssl.TLSVersion.TLSv1_2
    assert made.num_tickets == 0
    assert made.verify_mode == ssl.CERT_NONE


def test_a_client_ca_that_is_none_is_an_error_and_not_a_ca_that_trusts_nobody() -> None:
    with pytest.raises(ssl.SSLError):
        context(self_signed(KEY, "10.1.2.3"), "this is no certificate")
