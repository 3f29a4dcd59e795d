"""Messages to owners of pods about invalid annotations; tests/scheduler/test_owners.py covers the events."""

from typing import Any

import msgspec

from agent.api.kinds import DEPLOYMENTS, REPLICA_SETS, Kind
from agent.kube.store import Object
from agent.placement.target_choice.controller import KEPT, UNSAID, told_of


def owner(kind: Kind = DEPLOYMENTS, *references: dict[str, Any], **annotations: str) -> Object:
    said = {f"multicluster/{key.replace('_', '-')}": value for key, value in annotations.items()}
    metadata = {"name": "web", "namespace": "default", "annotations": said, "ownerReferences": list(references)}
    return Object(kind, msgspec.json.encode({"metadata": metadata}))


def test_of_targets_the_last_value_counts_on_and_of_moves_none() -> None:
    assert told_of(owner(targets="us > eu", move="never", failover_after="30s")) == ""
    targets = told_of(owner(targets="us eu"))
    moves = told_of(owner(move="no", fail_back="perhaps"))
    assert targets.endswith(f"in order of preference; remove it to choose none here. {KEPT}")
    assert moves.startswith("metadata.annotations[multicluster/move] 'no' must be one of surge, evict, never: correct")
    assert moves.endswith(f"correct it, or remove it. {UNSAID}")
    assert told_of(owner(targets="us eu", move="no", fail_back="perhaps")) == f"{targets}. {moves}"


def test_a_replica_set_is_not_told_of_what_its_deployment_says() -> None:
    above = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": True}
    assert told_of(owner(REPLICA_SETS, above, move="no")) == ""
    assert told_of(owner(REPLICA_SETS, move="no")) != ""
