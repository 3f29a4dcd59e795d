"""Immediate messages to users who apply one of P2CODE's applications."""

from typing import Any

import pytest

from tests.model.applications import SET, Raw, manifest, spec_of, workload
from tests.webhook.reviews import review
from webhook.applications import of_application
from webhook.review import Malformed


def told(spec: Any, **annotations: str) -> list[str]:
    metadata = {"name": "shop", "annotations": {f"multicluster/{key}": value for key, value in annotations.items()}}
    answer = of_application(review({"metadata": metadata, "spec": spec})["request"]).review["response"]
    assert answer["allowed"] is True
    found: list[str] = answer.get("warnings") or []
    return found


def test_an_application_that_is_right_needs_no_words() -> None:
    assert told(spec_of(workload())) == []


WRONG: dict[str, tuple[Raw, list[str]]] = {
    "an annotation": (
        spec_of(workload(), common=(SET, "color=red")),
        ["Unsupported annotations found, color=red is an unsupported annotation"],
    ),
    "no target": (
        spec_of(common=()),
        ["Target information missing from the scheduling manifest, no target managed cluster set provided"],
    ),
    "a manifest, too": (
        spec_of(manifest("PersistentVolume"), common=("color=red",)),
        [
            "Unsupported annotations found, color=red is an unsupported annotation",
            "Unsupported manifest: the cluster admin is responsible for managing persistentvolume resources",
        ],
    ),
}


@pytest.mark.parametrize("rule", WRONG)
def test_what_is_wrong_is_a_warning(rule: str) -> None:
    spec, wanted = WRONG[rule]
    assert told(spec) == wanted


def test_what_is_taken_depends_on_how_it_is_distributed() -> None:
    spec = spec_of(workload(kind="DaemonSet"))
    assert len(told(spec)) == len(told(spec, distribution="elect")) == 1
    assert told(spec, distribution="works") == []
    assert told(spec_of(workload()), distribution="push") == [
        "The annotation multicluster/distribution is push, and has to be elect or works"
    ]


@pytest.mark.parametrize("spec", [None, 5, {"manifests": "x"}])
def test_nonsense_is_no_failure(spec: Any) -> None:
    assert len(told(spec)) == 1


def test_a_request_without_an_object_is_malformed() -> None:
    with pytest.raises(Malformed):
        of_application(review(None)["request"])
