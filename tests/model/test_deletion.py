"""Grace periods of deletions, and whether a delegate may serve."""

from typing import Any

import pytest

from agent.api import names
from agent.api.names.endings import ANNOTATION_GRACE_PERIOD
from agent.model import deletion
from agent.model.livechanges import delegate_patch, told

Raw = dict[str, Any]
READY = [{"type": "Ready", "status": "True"}]


def proxy(asked: int = 0, usual: int = 0, owner: str = "ReplicaSet", phase: str = "Running") -> Raw:
    metadata = {
        "uid": "p",
        "deletionTimestamp": "2026-11-29T10:00:30Z",
        "deletionGracePeriodSeconds": asked,
        "ownerReferences": [{"kind": owner, "name": "web", "controller": True}],
    }
    return {"metadata": metadata, "spec": {"terminationGracePeriodSeconds": usual}, "status": {"phase": phase}}


def chaperon(own: int | None = 60, said: str | None = None, *, serving: bool = True, ready: bool = True) -> Raw:
    labels = {names.LABEL_SERVING: "true", "app": "web"} if serving else {"app": "web"}
    annotations = {ANNOTATION_GRACE_PERIOD: said} if said is not None else {}
    return {
        "metadata": {"uid": "c", "labels": labels, "annotations": annotations},
        "spec": {"terminationGracePeriodSeconds": own} if own is not None else {},
        "status": {"phase": "Running", "conditions": READY if ready else []},
    }


def ending() -> Raw:
    found = chaperon()
    found["metadata"]["annotations"][names.ANNOTATION_POD_ENDING] = "2026-11-29T10:00:00Z"
    return found


@pytest.mark.parametrize(
    ("asked", "usual", "own", "before", "granted"),
    [
        (0, 0, 60, 0, 60),
        (0, 0, None, 0, 30),
        (3, 0, 60, 3, 3),
        (120, 0, 60, 120, 60),
        (10, 10, 60, 10, 60),
        (0, 10, 60, 0, 0),
        (0, 0, 60, 40, 0),
        (2, 0, 60, 40, 2),
        (0, 0, 0, 0, 0),
    ],
    ids=[
        "as its spec says",
        "as pods have by default",
        "shorter",
        "longer",
        "as its spec says, with a hook that sleeps",
        "by force, with a hook that sleeps",
        "a second deletion by force",
        "a second deletion",
        "its spec grants none",
    ],
)
def test_seconds_that_a_deletion_grants(asked: int, usual: int, own: int | None, before: int, granted: int) -> None:
    assert deletion.granted_seconds(proxy(asked, usual), chaperon(own), before) == granted


@pytest.mark.parametrize(
    ("own", "said", "seconds", "wanted"),
    [
        (60, None, 60, None),
        (60, None, 3, 3),
        (60, "3", 3, None),
        (60, "40", 3, 3),
        (60, "3", 40, None),
        (60, None, 0, 1),
        (1, None, 0, None),
        (60, "x", 3, 3),
        (60, "9" * 400, 3, 3),
    ],
)
def test_a_grace_period_is_told_once_and_only_shortened(own: int, said: str, seconds: int, wanted: int | None) -> None:
    assert deletion.seconds_to_tell(chaperon(own, said), seconds) == wanted


@pytest.mark.parametrize(
    ("pod", "of", "may"),
    [
        (proxy(), chaperon(), True),
        (proxy(), chaperon(ready=False), False),
        (proxy(owner="Job"), chaperon(), False),
        (proxy(phase="Succeeded"), chaperon(), False),
        (proxy(), chaperon(serving=False), False),
        (proxy(), ending(), False),
    ],
    ids=["ready", "not ready", "a Job's", "ended", "made by an earlier version", "deleted in its target"],
)
def test_what_may_serve(pod: Raw, of: Raw, may: bool) -> None:
    assert deletion.may_serve(pod, of) is may


def test_a_delegate_that_is_withdrawn_loses_one_label_and_follows_what_it_was_told_before() -> None:
    before = chaperon()
    before["metadata"]["annotations"][names.ANNOTATION_LIVE_CHANGES] = '{"images":{"main":"x"},"labels":{"a":"b"}}'
    assert not deletion.is_withdrawn(before)
    patch = deletion.withdrawal_patch(before, 24)["metadata"]
    assert patch["labels"] == {names.LABEL_SERVING: None}
    assert patch["annotations"][ANNOTATION_GRACE_PERIOD] == "24"
    labels = {"app": "web"}
    after = {**before, "metadata": {**before["metadata"], "labels": labels, "annotations": patch["annotations"]}}
    assert told(after) == {"images": {"main": "x"}, "labels": {"a": "b", names.LABEL_SERVING: None}}
    assert deletion.is_withdrawn(after)
    assert deletion.may_serve(proxy(), after), "until the pause is over"
    assert deletion.told_seconds(after) == 24
    delegate = {"metadata": {"labels": {"a": "b", "app": "web", names.LABEL_SERVING: "true"}}, "spec": {}}
    assert delegate_patch(told(after), delegate) == {"metadata": {"labels": {names.LABEL_SERVING: None}}}


def test_when_a_deletion_began_does_not_depend_on_its_grace_period() -> None:
    began = deletion.began(proxy(30))
    assert began is not None
    assert began.isoformat() == "2026-11-29T10:00:00+00:00"
    assert deletion.began({"metadata": {}}) is None
