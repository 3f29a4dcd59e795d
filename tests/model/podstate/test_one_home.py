"""Only podstate derives a pod's location from API objects; each module that writes it is listed by name."""

import re

import pytest

from hack.lab.sandbox.objects import REPOSITORY
from tests.docs.source import modules

HOME = "agent/model/podstate/"
REFUSALS = "agent/pods/chaperon/refusals.py"
KEYS = {"agent/api/names/__init__.py", "agent/kube/typed.py"}
"""Modules that name the annotations and decode them for stores."""


@pytest.mark.parametrize(
    ("pattern", "elsewhere"),
    [
        (r"startswith\(names\.PREFIX\)", {"agent/model/service.py"}),
        (r"\bFINALIZER_V010\b", {"agent/api/names/__init__.py"}),
        (r"\bspec\.schedulerName!?=\{names\.SCHEDULER_PROXY\}", set()),
        (r"node_name or [\w.]*\bclaim\b", set()),
        (r"\bknown\.claim(_uid|_renewed)?\b", set()),
        (r"\bANNOTATION_CLAIM(_UID|_RENEWED)?\b", {*KEYS, "agent/scheduler/proxy_writer.py"}),
        (r"\bANNOTATION_RESERVE_ROUND\b", {"agent/api/names/__init__.py", "agent/scheduler/reserve/controller.py"}),
        (r"\bANNOTATION_RESERVE_ENDED\b", {"agent/api/names/__init__.py", "agent/extender/holds.py"}),
        (r"\bANNOTATION_IS_ALLOWED in\b", set()),
        (r"\"Refused\"", {REFUSALS}),
        (
            r"\"(SchedulingGated|nominatedNodeName)\"",
            {"agent/model/status.py", REFUSALS},
        ),
    ],
    ids=[
        "whether a finalizer is a target's",
        "the finalizer of all targets",
        "which pods are proxy pods",
        "the home",
        "the claim",
        "the annotations of the claim",
        "the round that is asked for",
        "the round that has ended",
        "whether a candidate has leave",
        "whether a candidate is refused",
        "whether preemption or a gate keeps a candidate waiting",
    ],
)
def test_it_is_told_in_one_place(pattern: str, elsewhere: set[str]) -> None:
    found = {
        name
        for name, text in sources().items()
        if re.search(pattern, text) and not name.startswith((HOME, *sorted(elsewhere)))
    }
    assert not found, f"ask agent.model.podstate instead of {pattern} in {', '.join(sorted(found))}"


@pytest.mark.parametrize(
    ("pattern", "writer"),
    [
        (r"\bANNOTATION_CLAIM: (?!None)", "agent/scheduler/proxy_writer.py"),
        (r"\.bring_home\(", "agent/pods/feedback/writer.py"),
        (r"async def release\(\s*self, key: Key, uid", "agent/clusters/stores/proxies.py"),
    ],
    ids=["claim", "home", "release"],
)
def test_finalizers_of_proxy_pods_have_one_writer_for_each_occasion(pattern: str, writer: str) -> None:
    found = [name for name, text in sources().items() if re.search(pattern, text)]
    assert found == [writer]


def test_no_controller_patches_finalizers_of_pods_by_itself() -> None:
    """Controllers patch those of Targets, Secrets, ConfigMaps, volumes, applications, and kinds of Open Cluster
    Management; the webhook adds the first to pods."""
    patch = re.compile(r"\"finalizers\":|\[\"finalizers\"\] =")
    found = {name for name, text in sources().items() if patch.search(text)}
    assert found == {
        "agent/cli/remove_target_finalizers.py",
        "agent/cli/remove_finalizers.py",
        "agent/clusters/copies/admiralty_finalizers.py",
        "agent/clusters/stores/proxies.py",
        "agent/hub/registration.py",
        "agent/hub/rights.py",
        "agent/klusterlet/ledger.py",
        "agent/klusterlet/works.py",
        "agent/services/ac3/controller.py",
        "agent/pods/feedback/decide.py",
        "agent/dependencies/follow/release.py",
        "agent/applications/controller.py",
        "agent/dependencies/placeholder_volumes/controller.py",
        "agent/targets/target/controller.py",
        "agent/targets/target/secrets.py",
        "agent/model/proxypod.py",
        "agent/scheduler/proxy_writer.py",
    }


def sources() -> dict[str, str]:
    """Return the source of all modules by their path."""
    return {str(path.relative_to(REPOSITORY)): path.read_text() for path in modules()}
