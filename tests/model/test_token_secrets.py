from agent.api import names
from agent.api.kinds import SECRETS
from agent.kube.client import encode
from agent.kube.store import Object
from agent.model import sourceapi
from agent.model.token import without_content


def test_of_a_secret_its_content_is_not_kept_and_everything_that_is_asked_of_it_is() -> None:
    pod = {"name": "web", "namespace": "team", "uid": "u1"}
    made = sourceapi.secret(pod, "t0ken", "2026-01-01T01:00:00Z", "CA", cluster_name="c1", cluster_uid="CU")
    made["metadata"] |= {"uid": "s1", "resourceVersion": "7"}
    kept = Object(SECRETS, without_content(encode(made)))
    assert b'"data"' not in kept.raw
    assert (kept.key, kept.uid, kept.version) == (("team", sourceapi.secret_name(pod)), "s1", "7")
    assert kept.labels == made["metadata"]["labels"]
    assert kept.annotations[names.ANNOTATION_PARENT_NAME] == "web"
    assert kept.annotations[names.ANNOTATION_TOKEN_EXPIRES] == "2026-01-01T01:00:00Z"
