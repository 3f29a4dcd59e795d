"""Policy about heartbeats: the requests that it matches."""

from agent.api import names
from agent.api.heartbeat_policies import SIGNS, specs


def test_the_authorizer_is_asked_only_about_the_lease_of_the_sources() -> None:
    # The API server evaluates every match condition, even after a false one.
    (condition,) = specs("home")[SIGNS]["matchConditions"]
    name, asked = condition["expression"].split(" && ", 1)
    assert name == f"object.metadata.name == '{names.LEASE_SOURCES}'"
    assert asked.startswith("!authorizer.")
