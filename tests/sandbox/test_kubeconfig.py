"""Kubeconfigs, as Flotilla's client reads them."""

import datetime

from agent.kube import config
from hack.lab.sandbox import kubeconfig
from hack.lab.sandbox.certificates import Authority

AUTHORITY = Authority("us", datetime.datetime.now(datetime.UTC))


def test_a_kubeconfig_with_a_client_certificate_can_be_loaded() -> None:
    text = kubeconfig.render(
        "us", "https://10.0.0.1:6443", AUTHORITY.pair.certificate, client=AUTHORITY.client("me", "system:masters")
    )
    assert config.parse(text).server == "https://10.0.0.1:6443"


async def test_a_kubeconfig_with_a_token_sends_it() -> None:
    text = kubeconfig.render("us", "https://10.0.0.1:6443", AUTHORITY.pair.certificate, token="secret")
    assert await config.parse(text).auth.header() == "Bearer secret"
