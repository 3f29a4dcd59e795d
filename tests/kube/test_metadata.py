"""Metadata of owners that the store keeps."""

import json

from agent.api.kinds import DEPLOYMENTS
from agent.kube.metadata import owner_metadata
from agent.kube.store import Object


def test_the_generation_of_an_owner_is_kept_which_tells_that_its_spec_has_changed() -> None:
    metadata = {"name": "web", "uid": "u", "generation": 7, "labels": {"app": "web"}, "annotations": {"other": "x"}}
    kept = Object(DEPLOYMENTS, owner_metadata(json.dumps({"metadata": metadata, "spec": {"paused": True}}).encode()))
    assert kept.head.metadata.generation == 7
    assert not kept.annotations
    assert not kept.labels
