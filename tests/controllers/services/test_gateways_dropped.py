"""Fields that an older CRD drops are omitted from writes to that cluster for a while."""

from typing import Any

import pytest

from agent.services.gateways.dropped import RETRY_SECONDS, DroppedFields

Raw = dict[str, Any]
DNS = {"uid": "u", "ca": "c", "services": [{"name": "dns"}], "udpServices": [{"name": "dns"}]}
UDP_ALONE = {"uid": "u", "ca": "c", "services": [], "udpServices": [{"name": "dns"}]}


def peer(spec: Raw, *without: str) -> Raw:
    return {"spec": {field: told for field, told in spec.items() if field not in without}}


def dropped(node: str, now: float) -> DroppedFields:
    found = DroppedFields()
    assert found.look(node, peer(DNS), peer(DNS, "udpServices"), now)
    return found


def test_where_all_is_kept_all_is_asked_for() -> None:
    found = DroppedFields()
    assert not found.look("eu", peer(DNS), peer(DNS), 0.0)
    assert found.without("eu", {"us": peer(DNS)}, 0.0) == {"us": peer(DNS)}


def test_what_one_cluster_drops_it_is_not_asked_for_while_others_are() -> None:
    found = dropped("eu", 0.0)
    assert found.without("eu", {"us": peer(DNS)}, 1.0) == {"us": peer(DNS, "udpServices")}
    assert found.without("", {"us": peer(DNS)}, 1.0) == {"us": peer(DNS)}


def test_a_peer_of_which_nothing_is_left_is_not_asked_for() -> None:
    assert dropped("eu", 0.0).without("eu", {"us": peer(UDP_ALONE)}, 1.0) == {}


def test_a_field_is_tried_again_after_a_while_and_where_the_cluster_is_another() -> None:
    found = dropped("eu", 0.0)
    assert found.without("eu", {"us": peer(DNS)}, RETRY_SECONDS) == {"us": peer(DNS)}
    found.forget("eu")
    assert found.without("eu", {"us": peer(DNS)}, 1.0) == {"us": peer(DNS)}


def test_a_field_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    dropped("eu", 0.0).look("eu", peer(DNS), peer(DNS, "udpServices"), 1.0)
    assert [each.getMessage() for each in caplog.records] == [
        "GatewayPeers in target eu have no spec.udpServices: apply the CRDs of this version there"
    ]
