import pytest

from agent.clusters.stores.endpoint_refusals import EndpointRefusals
from agent.kube.errors import Conflict, Forbidden, KubeError, ServerError, TooManyRequests, Unreachable

SERVICE = ("shop", "web")


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (Forbidden(403, "Forbidden", "exceeded quota"), True),
        (ServerError(500, "InternalError", "etcdserver: mvcc: database space exceeded"), True),
        (Conflict(409, "Conflict", "the object has been modified"), False),
        (TooManyRequests(429, "TooManyRequests", "too many requests"), False),
        (Unreachable("no answer"), False),
    ],
)
def test_errors_that_pass_within_moments_are_no_refusal(error: KubeError, refused: bool) -> None:
    refusals = EndpointRefusals()
    refusals.note("us", SERVICE, [error])
    assert refusals.has("us", SERVICE) is refused


def test_a_success_ends_a_refusal_of_that_cluster_alone() -> None:
    refusals, error = EndpointRefusals(), Forbidden(403, "Forbidden", "exceeded quota")
    for node in ("us", "eu"):
        refusals.note(node, SERVICE, [error])
    refusals.note("us", SERVICE, ())
    assert (refusals.has("us", SERVICE), refusals.has("eu", SERVICE)) == (False, True)
