"""Users named by certificates."""

from agent.kube.tokens import User
from agent.kubelet.identity import of_certificate


def test_the_common_name_is_the_user_and_organisations_are_groups() -> None:
    subject = ((("organizationName", "a"),), (("organizationName", "b"),), (("commonName", "me"),))
    assert of_certificate({"subject": subject}) == User("me", ("a", "b", "system:authenticated"))


def test_without_a_certificate_or_a_name_nobody_is_known() -> None:
    assert of_certificate({}) is None
    assert of_certificate({"subject": ((("organizationName", "system:masters"),),)}) is None
