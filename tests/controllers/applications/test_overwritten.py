"""Detection of possible foreign writes to an applied object."""

from typing import Any

import pytest

from agent.applications.overwritten import overwritten

Raw = dict[str, Any]


def live(generation: int = 1, noted: str = "a", image: str = "i", **more: Any) -> Raw:
    metadata = {"generation": generation, "annotations": {"multicluster/applied": noted}}
    return {"metadata": metadata, "spec": {"replicas": 1, "template": {"image": image}, **more}}


@pytest.mark.parametrize(
    ("new", "answer"),
    [
        (live(2, image="else"), True),
        (live(2, image="else", replicas=2), True),
        (live(2, strategy={}), True),
        (live(2, replicas=2, suspend=True, paused=True, parallelism=3, completions=4), False),
        (live(2, noted="b", image="else"), False),
        (live(1, image="else"), False),
    ],
    ids=["a field", "scaled, too", "a field more", "scaled", "another manifest", "the same generation"],
)
def test_it_is_overwritten_where_another_spec_comes_without_another_manifest(new: Raw, answer: bool) -> None:
    assert overwritten(live(), new) is answer
