import pytest

from agent.pods.elect_by_default.decide import decide

LABEL = "multicluster/elect-by-default"
LONG = "multicluster.admiralty.io/elect-by-default"
ENABLED = {"multicluster-scheduler": "enabled"}


@pytest.mark.parametrize(
    ("annotations", "labels", "want"),
    [
        pytest.param({}, {}, None, id="nothing asked, nothing there"),
        pytest.param({LABEL: "true"}, {}, {LABEL: "true"}, id="asked for"),
        pytest.param({LONG: "true"}, {}, {LABEL: "true"}, id="asked for with the long prefix"),
        pytest.param({LABEL: "true"}, {LABEL: "true"}, None, id="asked for and there"),
        pytest.param({LABEL: "true"}, {LABEL: "yes"}, {LABEL: "true"}, id="a wrong label"),
        pytest.param({}, {LABEL: "true"}, {LABEL: None}, id="a label that no annotation asks for"),
        pytest.param({LABEL: "false"}, {LABEL: "true"}, {LABEL: None}, id="asked not to"),
        pytest.param({LABEL: "yes"}, {LABEL: "true"}, {LABEL: None}, id="a value that means nothing"),
        pytest.param({LONG: "false", LABEL: "true"}, {}, None, id="the long prefix wins"),
    ],
)
def test_the_annotation_is_the_truth(
    annotations: dict[str, str], labels: dict[str, str], want: dict[str, str | None] | None
) -> None:
    assert decide(annotations, {**ENABLED, **labels}).patch == want


@pytest.mark.parametrize(("value", "complains"), [("true", False), ("false", False), ("yes", True), ("", True)])
def test_a_value_that_means_nothing_is_complained_about(value: str, complains: bool) -> None:
    assert bool(decide({LABEL: value}, {}).complaint) is complains
    assert not decide({}, {}).complaint


def test_so_is_a_delay_that_is_none() -> None:
    assert not decide({"multicluster/shutdown-delay": "10"}, {}).complaint
    assert "from 0 (none) to 300" in decide({"multicluster/shutdown-delay": "10s"}, {}).complaint


def test_so_are_targets_that_cannot_be_read() -> None:
    assert not decide({"multicluster/targets": "us > eu"}, {}).complaint
    complaint = decide({"multicluster/targets": "us eu", "multicluster/allowed-targets": "us>eu"}, {}).complaint
    assert "metadata.annotations[multicluster/targets] 'us eu' is no name of a target" in complaint
    assert "metadata.annotations[multicluster/allowed-targets] 'us>eu' has preferences" in complaint


@pytest.mark.parametrize("key", ["multicluster/share-services", "multicluster.admiralty.io/follow-service-account"])
def test_so_is_one_of_what_goes_with_the_pods(key: str) -> None:
    assert not decide({key: "false"}, {}).complaint
    assert key.partition("/")[2] in decide({key: "no"}, {}).complaint
    assert decide({key: "no", LABEL: "maybe"}, {}).complaint.count("annotation") == 2


@pytest.mark.parametrize(("value", "is_wrong"), [("always", False), ("auto", False), ("sometimes", True), ("", True)])
def test_a_value_of_service_reroute_that_means_nothing_is_reported(value: str, is_wrong: bool) -> None:
    change = decide({"multicluster/service-reroute": value}, {})
    assert ("multicluster/service-reroute" in change.complaint) is is_wrong
