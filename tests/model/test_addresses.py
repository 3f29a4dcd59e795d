from typing import Any

import pytest

from agent.model.addresses import NOT_WANTED, InvalidRequest, Request, changes, of, request, told

ASK, TOLD, IN = "multicluster/publish-addresses", "multicluster/addresses", "multicluster/addresses-in"
DNS = "external-dns.alpha.kubernetes.io/target"


def original(annotations: dict[str, str] | None = None, *addresses: str) -> dict[str, Any]:
    listed = [{"ip": each} for each in addresses]
    return {"metadata": {"annotations": annotations or {}}, "status": {"loadBalancer": {"ingress": listed}}}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, NOT_WANTED),
        ({ASK: "false"}, NOT_WANTED),
        ({ASK: "true"}, Request(wanted=True)),
        ({ASK: DNS}, Request(wanted=True, key=DNS)),
        ({"multicluster.admiralty.io/publish-addresses": "false", ASK: "true"}, NOT_WANTED),
    ],
)
def test_what_is_asked_for(annotations: dict[str, str], expected: Request) -> None:
    assert request(annotations) == expected


@pytest.mark.parametrize(
    "said", ["", "yes", "no-domain", "a b/c", TOLD, "multicluster.admiralty.io/x", "kubectl.kubernetes.io/restartedAt"]
)
def test_a_request_that_makes_no_sense_names_the_annotation_and_the_remedy(said: str) -> None:
    with pytest.raises(InvalidRequest, match=r"publish-addresses is .*write true, false, or the key") as error:
        request({ASK: said})
    assert repr(said) in str(error.value)


def test_addresses_are_read_of_the_status_and_nonsense_is_left_out() -> None:
    listed: list[Any] = [{"ip": "10.0.0.1"}, {"hostname": "lb.example.com"}, {"ip": "2001:db8::1"}, {"ip": "10.0.0.1"}]
    listed += [{"ip": "a,b"}, {"hostname": 7}, {}, "x", {"hostname": "A b"}]
    assert of({"status": {"loadBalancer": {"ingress": listed}}}) == ["10.0.0.1", "lb.example.com", "2001:db8::1"]
    assert len(of(original({}, *(f"10.0.1.{each}" for each in range(99))))) == 16
    assert of({}) == of({"status": {}}) == []


@pytest.mark.parametrize(
    ("annotations", "asked", "found", "expected"),
    [
        ({}, Request(True), {"us": ["1.1.1.1"], "eu": []}, {TOLD: '{"us":["1.1.1.1"]}'}),
        ({TOLD: '{"us":["1.1.1.1"]}'}, Request(True), {"us": ["1.1.1.1"]}, {}),
        ({TOLD: '{"us":["1.1.1.1"]}'}, Request(True), {"us": None}, {}),
        ({TOLD: '{"us":["1.1.1.1"]}'}, Request(True), {}, {TOLD: None}),
        ({}, Request(True), {"us": None}, {}),
        ({TOLD: "[7"}, Request(True), {"us": ["1.1.1.1"]}, {TOLD: '{"us":["1.1.1.1"]}'}),
        (
            {},
            Request(True, DNS),
            {"us": ["1.1.1.1"], "eu": ["e.com", "9.9.9.9"]},
            {TOLD: '{"eu":["e.com","9.9.9.9"],"us":["1.1.1.1"]}', DNS: "9.9.9.9,e.com,1.1.1.1", IN: DNS},
        ),
        ({DNS: "1.1.1.1", IN: DNS, TOLD: '{"us":["1.1.1.1"]}'}, NOT_WANTED, {}, {DNS: None, IN: None, TOLD: None}),
        ({DNS: "9.9.9.9", IN: DNS}, Request(True, "a.b/c"), {}, {DNS: None, IN: "a.b/c", "a.b/c": "9.9.9.9"}),
        ({DNS: "by hand"}, NOT_WANTED, {}, {}),
    ],
    ids=["first", "same", "away", "left", "new", "unreadable", "listed", "undone", "other-key", "by-hand"],
)
def test_what_changes_on_the_original(annotations: Any, asked: Request, found: Any, expected: Any) -> None:
    obj = original(annotations, "9.9.9.9")
    assert changes(obj, asked, found) == expected
    after = {key: value for key, value in {**annotations, **expected}.items() if value is not None}
    assert changes(original(after, "9.9.9.9"), asked, found) == {}


def test_a_list_of_nothing_is_no_list() -> None:
    assert changes(original({DNS: "1.1.1.1", IN: DNS}), Request(True, DNS), {}) == {DNS: None}
    assert told({}) == {}
