from pathlib import Path

import pytest

from agent.base import flags
from agent.ranking.scores import Weights
from agent.settings import InvalidSetting, Settings, parse


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
    files = ["--tuning=extender-cert=c", "--tuning=extender-key=k", "--tuning=extender-client-ca=ca"]
    assert parse(["--extender-address=0.0.0.0:10261", *files]).extender_client_ca == "ca"


@pytest.mark.parametrize("given", ["90", "90.0", "9e1", "90s", "1m30s", "1.5m", "90000ms"])
def test_times_are_durations_of_kubernetes_or_plain_seconds(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse([f"--tuning=stream-idle={given}"]).stream_idle == 90
    monkeypatch.setenv("FLOTILLA_STREAM_IDLE", given)
    assert parse([]).stream_idle == 90


def test_an_empty_variable_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOTILLA_PROBE_INTERVAL", "")
    monkeypatch.setenv("FLOTILLA_CLUSTER_PROPERTY", "")
    assert parse([]) == Settings()


def test_switches_are_given_in_three_ways() -> None:
    for given, want in (("--log-json", True), ("--log-json=true", True), ("--no-log-json", False)):
        assert parse(["--log-json=false", given]).log_json is want
    with pytest.raises(InvalidSetting, match="--log-json=maybe: must be true or false"):
        parse(["--log-json=maybe"])


def test_help_names_every_flag_its_variable_and_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["--help"])
    assert ended.value.code == 0
    # Lines end at dashes, too.
    told = "".join(capsys.readouterr().out.split())
    for named in flags.flags(Settings):
        if named.flag.tuning:
            assert f"[${named.variables()[0]}" not in told
            continue
        for spelling in named.spellings:
            assert spelling in told
        default = f";default{named.flag.default}" if named.flag.default else ""
        assert f"[${named.variables()[0]}{default}]" in told
    for title, found in flags.topics(Settings):
        if all(named.flag.tuning for named in found):
            continue
        assert title.replace(" ", "") + ":" in told


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
        (["--tuning=lease-retry=11"], "lease-retry must be shorter.* 11s, 11s and 12s"),
        (["--tuning=hold=30 s"], "--tuning=hold=30 s: must be a duration.* or a number of seconds"),
        (["--tuning=probe-failures=1.5"], "--tuning=probe-failures=1.5: must be a whole number, 1 or more"),
        (["--kubelet-port=0"], "--kubelet-port=0: must be from 1 to 65535"),
        (["--tuning=token-renewal=1"], "--tuning=token-renewal=1: must be between 0 and 1"),
        (["--tuning=source-api-token=9m"], "--tuning=source-api-token=9m: must be 10m at least"),
        (["--source-api=:6443"], "--source-api=:6443: must be HOST:PORT"),
        (["--scheduling=first"], "--scheduling=first: must be one of ranked, reserve"),
        (["--tuning=lease-duration=5"], "lease-duration"),
        (["--tuning=probe-interval=0"], "--tuning=probe-interval=0: must be longer than nothing"),
        (["--tuning=probe-timeout=nan"], "--tuning=probe-timeout"),
        (["--tuning=pod-missing=inf"], "--tuning=pod-missing"),
        (["--tuning=max-in-flight=-1"], "--tuning=max-in-flight"),
        (["--health-address", "localhost"], "--health-address.*HOST:PORT"),
        (["--tuning=score-spread=-1"], "--tuning=score-spread=-1: must be 0 or greater"),
        (["--tuning=score-images=nan"], "--tuning=score-images"),
        (["--placement-strategy", "random"], "--placement-strategy=random: must be one of least, most"),
        (["--extra-score", "5:cpu"], "--extra-score=5:cpu: '5:cpu' is not WEIGHT:RESOURCE.VERSION.GROUP:OBJECT:SCORE"),
        (["--extra-score=1:a.v1.g:o:s", "--extra-score=2:b.v1.g:o:s"], "--extra-score: o:s is given twice"),
        (["--placement=hub"], "--placement=hub: must be one of auto, serve, consume, off"),
        (["--tuning=usage-scores=yes"], "--tuning=usage-scores=yes: must be one of auto, true, false"),
        (["--tuning=usage-scores=true", "--placement=off"], "--tuning=usage-scores=true needs --placement=auto, serve"),
        (["--tuning=score-validity=0"], "--tuning=score-validity=0: must be longer than nothing"),
        (["--score-max=cpu"], "--score-max=cpu: must be NAME=QUANTITY, such as cpu=100"),
        (["--score-max=disk=1"], "--score-max=disk=1: disk is none of cpu, memory, gpu, tpu"),
        (["--score-max=memory=much"], "--score-max=memory=much: 'much' is not a quantity.*such as memory=1Ti"),
        (["--score-max=cpu=0"], "--score-max=cpu=0: must be more than 0, such as cpu=100"),
        (["--score-max=cpu=1", "--score-max=cpu=2"], "--score-max: cpu is given twice: keep one of them"),
        (["--prometheus-scores=/nonexistent/scores.yaml"], "--prometheus-scores=.*: cannot be read: .*No such file"),
        (["--tuning=score-placement=-1"], "--tuning=score-placement=-1: must be 0 or greater"),
        (["--summary-detail", "some"], "--summary-detail=some: must be one of full, minimal, sums"),
        (["--tuning=home-annotation=a b"], "--tuning=home-annotation=a b: must be the key of an annotation"),
        (["--tuning=event-rate=0"], "--tuning=event-rate=0: must be greater than 0"),
        (["--cluster-property", "tier"], "--cluster-property=tier: must be KEY=VALUE"),
        (["--cluster-property", "a b=c"], "--cluster-property"),
        (["--cluster-property", "a=b c"], "--cluster-property"),
        (["--extender-address", "127.0.0.1"], "--extender-address.*HOST:PORT"),
        (["--extender-address", "127.0.0.1:99999"], "--extender-address.*HOST:PORT"),
        (["--extender-address", "0.0.0.0:10261"], "--extender-address.*plain HTTP.*extender-client-ca"),
        (["--extender-address", ":10261"], "--extender-address.*not a loopback address"),
        (["--extender-address", "[::]:10261"], "--extender-address.*not a loopback address"),
        (["--extender-address", "node.example.com:10261"], "--extender-address.*not a loopback address"),
        (["--extender-address", "10.0.0.1:1", "--tuning=extender-cert=c,extender-key=k"], "give all three or none"),
        (["--extender-address", "127.0.0.1:1", "--tuning=extender-client-ca=c"], "give all three or none"),
        (["--tuning=hold=0"], "--tuning=hold"),
        (["--log-level", "loud"], "--log-level.*DEBUG"),
        (["--ac3-networks", "--no-service-links"], "--ac3-networks.*--no-service-links"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_setting_that_cannot_be_used_is_named_with_the_remedy(arguments: list[str], message: str) -> None:
    with pytest.raises(InvalidSetting, match=message):
        parse(arguments)


@pytest.mark.parametrize(
    ("name", "text"),
    [("FLOTILLA_LOG_JSON", "yes"), ("FLOTILLA_KUBELET_PORT", "x"), ("FLOTILLA_PROBE_INTERVAL", "soon")],
)
def test_a_variable_that_cannot_be_read_is_named(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(InvalidSetting, match=f"{name}={text}: must be"):
        parse([])


def test_a_replica_is_called_by_flag_then_pod_then_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAME", "agent-0")
    assert parse(["--tuning=identity=me"]).replica == "me"
    assert parse([]).replica == "agent-0"
    monkeypatch.delenv("POD_NAME")
    assert parse([]).replica != parse([]).replica


def test_a_fence_outlasts_an_election_whatever_its_margin() -> None:
    assert parse([]).fence_wait == 30.0
    assert parse(["--tuning=fence-margin=2s"]).fence_wait == parse([]).lease_duration
    assert parse(["--tuning=lease-duration=60s", "--tuning=fence-margin=45s"]).fence_wait == 60.0


def test_the_amounts_that_score_100_are_settings_one_by_one() -> None:
    assert {name: amount // 10**9 for name, amount in parse([]).score_maxima.items()} == {
        "cpu": 100,
        "memory": 2**40,
        "gpu": 20,
        "tpu": 20,
    }
    assert parse(["--score-max=cpu=500m"]).score_maxima == {**parse([]).score_maxima, "cpu": 5 * 10**8}


SCORE = "[{name: a, resource: b, url: 'https://p', query: up, max: 1, caBundle: %s}]"


def test_scores_of_prometheus_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "scores.yaml"
    file.write_text(SCORE % '""')
    (score,) = parse([f"--prometheus-scores={file}"]).prometheus_scores
    assert (score.name, score.resource, score.ca_bundle) == ("a", "b", "")
    assert parse([]).prometheus_scores == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SCORE % "no certificate", r"--prometheus-scores=.*: \[0\].caBundle: is no PEM of certificates.*correct it"),
        ("[{name: a}]", r"--prometheus-scores=.*: \[0\].url: is missing: add it"),
        ("a: b", "--prometheus-scores=.*: must be a list"),
    ],
)
def test_a_file_of_scores_that_cannot_be_used_is_named_with_the_field(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "scores.yaml"
    file.write_text(text)
    with pytest.raises(InvalidSetting, match=message):
        parse([f"--prometheus-scores={file}"])


def test_scores_of_prometheus_are_for_placements(tmp_path: Path) -> None:
    file = tmp_path / "scores.yaml"
    file.write_text(SCORE % '""')
    with pytest.raises(InvalidSetting, match="--prometheus-scores needs --placement=auto, serve or consume"):
        parse([f"--prometheus-scores={file}", "--placement=off"])


def test_weights_of_scores_are_settings_and_0_leaves_one_out() -> None:
    given = ["--score-capacity", "0", "--placement-strategy=most", "--extra-score=-2.5:a.v1.g:usage:cpu"]
    weights = parse(given).weights
    assert (weights.capacity, weights.strategy, weights.extra) == (0.0, "most", {"usage:cpu": -2.5})
    assert parse([]).weights == Weights()
