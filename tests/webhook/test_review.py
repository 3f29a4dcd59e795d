import pytest

from webhook.review import Malformed, read


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not an AdmissionReview"),
        (b'{"kind":"Pod"}', "not an AdmissionReview"),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1"}', "admissionReviewVersions"),
        (b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}', "request.uid is missing"),
        (
            b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":1}}',
            "request.uid is missing",
        ),
    ],
)
def test_a_malformed_review_is_named(body: bytes, complaint: str) -> None:
    with pytest.raises(Malformed, match=complaint):
        read(body)
