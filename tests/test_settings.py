from dataclasses import fields

import pytest

from agent.scheduling.scores import Weights
from agent.settings import InvalidSetting, Settings, parse, variable


def test_without_flags_and_variables_the_defaults_count() -> None:
    assert parse([]) == Settings()


def test_a_flag_wins_over_its_variable_and_that_over_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOTILLA_CLUSTER_NAME", "from-environment")
    monkeypatch.setenv("FLOTILLA_PROBE_INTERVAL", "0.5")
    monkeypatch.setenv("FLOTILLA_SOURCE_CONTROLLER", "false")
    settings = parse(["--cluster-name", "from-flag"])
    assert (settings.cluster_name, settings.probe_interval, settings.source_controller) == ("from-flag", 0.5, False)
    assert parse(["--source-controller"]).source_controller


def test_cluster_properties_are_given_one_by_one_or_in_a_variable_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOTILLA_CLUSTER_PROPERTY", "tier=gold, example.com/site=7,")
    assert parse([]).cluster_property == ("tier=gold", "example.com/site=7")
    assert parse(["--cluster-property=a=b", "--cluster-property", "c="]).cluster_property == ("a=b", "c=")


@pytest.mark.parametrize("address", ["127.0.0.1:10261", "127.9.0.1:1", "[::1]:10261", "localhost:10261"])
def test_the_extender_is_plain_on_loopback_and_anywhere_with_certificates(address: str) -> None:
    assert parse(["--extender-address", address]).extender_address == address
    files = ["--extender-cert=c", "--extender-key=k", "--extender-client-ca=ca"]
    assert parse(["--extender-address=0.0.0.0:10261", *files]).extender_client_ca == "ca"


def test_help_names_every_flag_its_variable_and_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["--help"])
    assert ended.value.code == 0
    told = " ".join(capsys.readouterr().out.split())
    for setting in fields(Settings):
        assert "--" + setting.name.replace("_", "-") in told
        assert f"${variable(setting.name)}; default" in told


def test_an_unknown_flag_is_an_error_of_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["--no-such-flag"])
    assert ended.value.code == 2
    assert "--no-such-flag" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cluster-name", "x" * 64], "--cluster-name"),
        (["--cluster-name", "my cluster"], "--cluster-name.*label value"),
        (["--cluster-name=-x"], "--cluster-name"),
        (["--lease-retry", "11"], "--lease-retry must be shorter"),
        (["--lease-duration", "5"], "--lease-duration"),
        (["--probe-interval", "0"], "--probe-interval: must be greater than 0"),
        (["--probe-timeout", "nan"], "--probe-timeout"),
        (["--pod-missing", "inf"], "--pod-missing"),
        (["--max-in-flight=-1"], "--max-in-flight"),
        (["--health-address", "localhost"], "--health-address.*HOST:PORT"),
        (["--score-spread=-1"], "--score-spread: must be 0 or greater"),
        (["--score-images", "nan"], "--score-images"),
        (["--placement-strategy", "random"], "--placement-strategy: 'random' is none of least, most"),
        (["--extra-score", "5:cpu"], "--extra-score: '5:cpu' is not WEIGHT:RESOURCE.VERSION.GROUP:OBJECT:SCORE"),
        (["--extra-score=1:a.v1.g:o:s", "--extra-score=2:b.v1.g:o:s"], "--extra-score: o:s is given twice"),
        (["--summary-detail", "some"], "--summary-detail.*full, minimal, sums"),
        (["--home-annotation", "a b"], "--home-annotation: 'a b' is neither a key"),
        (["--event-rate", "0"], "--event-rate: must be greater than 0"),
        (["--cluster-property", "tier"], "--cluster-property: 'tier' is not KEY=VALUE"),
        (["--cluster-property", "a b=c"], "--cluster-property"),
        (["--cluster-property", "a=b c"], "--cluster-property"),
        (["--extender-address", "127.0.0.1"], "--extender-address.*HOST:PORT"),
        (["--extender-address", "127.0.0.1:99999"], "--extender-address.*HOST:PORT"),
        (["--extender-address", "0.0.0.0:10261"], "--extender-address.*plain HTTP.*--extender-client-ca"),
        (["--extender-address", ":10261"], "--extender-address.*not a loopback address"),
        (["--extender-address", "[::]:10261"], "--extender-address.*not a loopback address"),
        (["--extender-address", "node.example.com:10261"], "--extender-address.*not a loopback address"),
        (["--extender-address", "10.0.0.1:1", "--extender-cert=c", "--extender-key=k"], "give all three or none"),
        (["--extender-address", "127.0.0.1:1", "--extender-client-ca=c"], "give all three or none"),
        (["--hold", "0"], "--hold"),
        (["--log-level", "loud"], "--log-level.*DEBUG"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_setting_that_cannot_be_used_is_named_with_the_remedy(arguments: list[str], message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        parse(arguments)


@pytest.mark.parametrize(
    ("name", "text"), [("FLOTILLA_LOG_JSON", "yes"), ("FLOTILLA_KUBELET_PORT", "x"), ("FLOTILLA_PROBE_INTERVAL", "")]
)
def test_a_variable_that_cannot_be_read_is_named(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(InvalidSetting, match=name):
        parse([])


def test_a_replica_is_called_by_flag_then_pod_then_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAME", "agent-0")
    assert parse(["--identity", "me"]).replica == "me"
    assert parse([]).replica == "agent-0"
    monkeypatch.delenv("POD_NAME")
    assert parse([]).replica != parse([]).replica


def test_weights_of_scores_are_settings_and_0_leaves_one_out() -> None:
    given = ["--score-capacity", "0", "--placement-strategy=most", "--extra-score=-2.5:a.v1.g:usage:cpu"]
    weights = parse(given).weights
    assert (weights.capacity, weights.strategy, weights.extra) == (0.0, "most", {"usage:cpu": -2.5})
    assert parse([]).weights == Weights()
