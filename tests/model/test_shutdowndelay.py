from typing import Any

import pytest

from agent.model.shutdowndelay import delayed, flaws, is_possible, seconds

LONG, SHORT = "multicluster.admiralty.io/shutdown-delay", "multicluster/shutdown-delay"
SLEEP = {"preStop": {"sleep": {"seconds": 7}}}
OWN: Any = {"name": "b", "lifecycle": {"preStop": {"exec": {"command": ["true"]}}}}


@pytest.mark.parametrize(
    ("pod", "namespace", "expected"),
    [
        ({}, {}, 0),
        ({SHORT: "7"}, {}, 7),
        ({LONG: "8", SHORT: "7"}, {}, 8),
        ({}, {SHORT: "300"}, 300),
        ({SHORT: "0"}, {SHORT: "300"}, 0),
        ({}, {SHORT: "301"}, 0),
        ({}, {SHORT: "5s"}, 0),
        ({SHORT: "-1"}, {SHORT: "5"}, 0),
        ({SHORT: "٣"}, {}, 0),
    ],
)
def test_the_pods_own_delay_counts_more_than_its_namespaces(
    pod: dict[str, str], namespace: dict[str, str], expected: int
) -> None:
    assert seconds(pod, namespace) == expected


@pytest.mark.parametrize("said", ["", "5s", "-1", "301", "1.5", "٣", "soon"])
def test_what_is_no_delay_is_named_with_its_field_and_the_remedy(said: str) -> None:
    for key in (LONG, SHORT):
        ((field, reason),) = flaws({key: said})
        assert field == f"metadata.annotations[{key}]"
        assert "from 0 (none) to 300" in reason
        assert repr(said) in reason
    assert not [*flaws({SHORT: "0"}), *flaws({SHORT: "300"}), *flaws({}), *flaws(None)]


@pytest.mark.parametrize(
    ("version", "expected"),
    [("v1.30.0", True), ("v1.36.3-gke.7", True), ("v2.0.0", True), ("v1.29.9", False), ("", False), ("kwok", False)],
)
def test_only_a_cluster_that_is_known_to_have_the_hook_gets_it(version: str, expected: bool) -> None:
    assert is_possible(version) is expected


def test_containers_without_a_hook_of_their_own_sleep_and_the_pod_has_as_much_more_grace() -> None:
    post = {"postStart": {"sleep": {"seconds": 1}}}
    sidecar = {"name": "s", "restartPolicy": "Always"}
    spec = {
        "initContainers": [sidecar],
        "containers": [{"name": "a"}, OWN, {"name": "c", "lifecycle": post}],
        "terminationGracePeriodSeconds": 3,
    }
    assert delayed(spec, 7) == {
        "initContainers": [sidecar],
        "containers": [{"name": "a", "lifecycle": SLEEP}, OWN, {"name": "c", "lifecycle": {**post, **SLEEP}}],
        "terminationGracePeriodSeconds": 10,
    }


@pytest.mark.parametrize(("grace", "expected"), [({}, 37), ({"terminationGracePeriodSeconds": 0}, 7)])
def test_the_default_grace_counts_where_a_pod_names_none(grace: dict[str, int], expected: int) -> None:
    assert delayed({"containers": [{"name": "a"}], **grace}, 7)["terminationGracePeriodSeconds"] == expected


@pytest.mark.parametrize(("containers", "delay"), [([OWN], 7), ([{"name": "a"}], 0), ([], 7)])
def test_a_pod_that_needs_no_hook_stays_as_it_is(containers: list[Any], delay: int) -> None:
    spec = {"containers": containers}
    assert delayed(spec, delay) is spec
