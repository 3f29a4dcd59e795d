from datetime import timedelta
from pathlib import Path

import pytest

from agent.base import flags
from agent.base.certificate_bundle import Lifetimes
from webhook.configurations import Service
from webhook.settings import PREFIXES, InvalidSetting, Settings, own_namespace, parse

URL = ("--url", "https://10.0.0.1:9443")


def complaint(*argv: str, **environ: str) -> str:
    with pytest.raises(InvalidSetting) as refused:
        parse(argv, environ)
    return str(refused.value)


def test_defaults() -> None:
    settings = parse(URL, {})
    assert settings.bind == ":9443"
    assert settings.configuration_name == "multicluster-scheduler"
    assert settings.certificate_secret == "multicluster-scheduler-webhook-cert"
    assert settings.reinvocation_policy == "Never"
    assert settings.lifetimes == Lifetimes()
    assert settings.body_limit == 4 * 1024 * 1024
    assert (settings.register, settings.log_json, settings.drain_seconds) == (False, False, 0.0)


def test_by_url_the_host_is_in_the_certificate() -> None:
    settings = parse(("--url", "https://[fd00::1]:9443/"), {})
    assert settings.certificate_name == "fd00::1"
    assert settings.reach("/mutate--v1-pod") == {"url": "https://[fd00::1]:9443/mutate--v1-pod"}


def test_by_service_the_name_of_the_service_is_in_the_certificate() -> None:
    settings = parse(("--service", "system/hook:8443"), {})
    want = {"namespace": "system", "name": "hook", "port": 8443, "path": "/mutate--v1-pod"}
    assert settings.service == Service("system", "hook", 8443)
    assert settings.certificate_name == "hook.system.svc"
    assert settings.reach("/mutate--v1-pod") == {"service": want}
    assert settings.drain_seconds == 5.0


def test_a_service_has_port_443_unless_it_says_otherwise() -> None:
    assert parse(("--service", "system/hook"), {}).service == Service("system", "hook", 443)


def test_every_setting_can_come_from_either_environment_variable() -> None:
    values = {"--bind": "[::]:1", "--log-level": "debug", "--register": "true", "--certificate-lifetime": "36h"}
    for prefix in ("FLOTILLA_WEBHOOK_", "FLOTILLA_"):
        environ = {prefix + flag.strip("-").replace("-", "_").upper(): value for flag, value in values.items()}
        settings = parse(URL, environ)
        assert settings.bind == "[::]:1"
        assert settings.log_level == "DEBUG"
        assert settings.register is True
        assert settings.lifetimes.certificate == timedelta(hours=36)


def test_flag_wins_over_own_variable_wins_over_shared_variable() -> None:
    environ = {"FLOTILLA_WEBHOOK_NAMESPACE": "own", "FLOTILLA_NAMESPACE": "shared"}
    assert parse((*URL, "--namespace", "flag"), environ).namespace == "flag"
    assert parse(URL, environ).namespace == "own"
    assert parse(URL, {"FLOTILLA_NAMESPACE": "shared"}).namespace == "shared"


def test_a_flag_for_the_url_wins_over_a_variable_for_the_service() -> None:
    settings = parse(URL, {"FLOTILLA_WEBHOOK_SERVICE": "system/hook"})
    assert settings.service is None
    assert settings.certificate_name == "10.0.0.1"


def test_a_switch_needs_no_value_and_can_be_switched_off() -> None:
    assert parse((*URL, "--register", "--log-json"), {}).register is True
    assert parse((*URL, "--register=false"), {"FLOTILLA_REGISTER": "true"}).register is False


@pytest.mark.parametrize("given", ["1200", "20m", "19m60s", "0h20m"])
def test_times_are_durations_of_kubernetes_or_plain_seconds(given: str) -> None:
    assert parse((*URL, "--overlap", given), {}).lifetimes.overlap == timedelta(minutes=20)


def test_help_names_every_flag_with_its_variables(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(("--help",), {})
    text = " ".join(capsys.readouterr().out.split())
    for named in flags.flags(Settings):
        if named.flag.tuning:
            continue
        assert f"--{named.option}" in text
        own, shared = named.variables(PREFIXES)
        assert f"[${own} or ${shared}" in text


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        (("--bind", "9443"), "--bind=9443: must be HOST:PORT"),
        (("--bind", "a:70000"), "--bind=a:70000: must be HOST:PORT"),
        (("--url", "http://a:1"), "--url=http://a:1: must be https://HOST:PORT"),
        (("--url", "https://a:1/path"), "must be https://HOST:PORT without a path"),
        (("--service", "hook"), "--service=hook: must be NAMESPACE/NAME"),
        (("--service", "a/b:c"), "must be NAMESPACE/NAME"),
        (("--ca-lifetime", "5y"), "--ca-lifetime=5y: must be a duration"),
        (("--certificate-lifetime", "0s"), "must be longer than nothing"),
        (("--drain", "1m"), "--drain=1m: must be 5s at most"),
        (("--body-limit", "-1"), "--body-limit=-1: must be 1 or more"),
        (("--log-level", "loud"), "--log-level=loud: must be one of DEBUG, INFO, WARNING, ERROR"),
        (("--client-ca", "/nowhere"), "--client-ca=/nowhere: cannot be read"),
        (("--register=maybe",), "--register=maybe: must be true or false"),
        (("--namespace", ""), "--namespace=: must not be empty"),
    ],
)
def test_a_bad_value_is_named_with_its_flag(argv: tuple[str, ...], names: str) -> None:
    extra = () if argv[0] in ("--url", "--service") else URL
    assert names in complaint(*extra, *argv)


def test_a_bad_value_is_named_with_its_variable() -> None:
    assert "FLOTILLA_BIND=x: must be HOST:PORT" in complaint(*URL, FLOTILLA_BIND="x")


@pytest.mark.parametrize("argv", [(), (*URL, "--service", "a/b")], ids=["neither", "both"])
def test_exactly_one_way_to_reach_us_is_needed(argv: tuple[str, ...]) -> None:
    assert "give either --url" in complaint(*argv)


def test_the_namespace_is_that_of_the_pod_or_kube_system(tmp_path: Path) -> None:
    file = tmp_path / "namespace"
    assert own_namespace(file) == "kube-system"
    file.write_text("flotilla\n")
    assert own_namespace(file) == "flotilla"
