import contextlib
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import given
from hypothesis import strategies as st

from agent.kube import config
from agent.kube.config import FileAuth, load, parse
from agent.kube.errors import InvalidConfig
from hack.lab.sandbox.certificates import Authority
from tests.kube.kubeconfigs import SERVER, data, kubeconfig

AUTHORITY = Authority("test", datetime.now(UTC))
CLIENT = AUTHORITY.client("alice", "admins")


def locked(key: bytes) -> bytes:
    secret = serialization.BestAvailableEncryption(b"secret")
    private = serialization.load_pem_private_key(key, None)
    return private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret)


async def test_a_kubeconfig_with_a_token_gives_server_namespace_and_header() -> None:
    connection = parse(kubeconfig())
    assert (connection.server, connection.namespace) == (SERVER, "team")
    assert await connection.auth.header() == "Bearer t0ken"


async def test_json_is_read_as_well_as_yaml_and_text_as_well_as_bytes() -> None:
    text = '{"current-context":"a","contexts":[{"name":"a","context":{"cluster":"b"}}],'
    text += '"clusters":[{"name":"b","cluster":{"server":"http://127.0.0.1:8001/"}}]}'
    connection = parse(text)
    assert (connection.server, connection.tls, connection.namespace) == ("http://127.0.0.1:8001", None, "default")
    assert await connection.auth.header() is None


async def test_a_named_context_wins_over_the_current_one() -> None:
    contexts = [{"name": name, "context": {"cluster": "c", "user": name}} for name in ("main", "other")]
    users = [{"name": name, "user": {"token": name}} for name in ("main", "other")]
    connection = parse(kubeconfig(contexts=contexts, users=users), "other")
    assert await connection.auth.header() == "Bearer other"


def test_an_ipv6_address_and_a_path_are_kept() -> None:
    assert parse(kubeconfig(cluster={"server": "https://[fd00::1]:6443/k8s/c1/"})).server == (
        "https://[fd00::1]:6443/k8s/c1"
    )


async def test_a_user_name_and_password_make_a_basic_header() -> None:
    connection = parse(kubeconfig({"username": "a", "password": "b"}))
    assert await connection.auth.header() == "Basic YTpi"


async def test_a_line_break_at_the_end_of_a_token_is_no_part_of_it() -> None:
    assert await parse(kubeconfig({"token": "abc\n"})).auth.header() == "Bearer abc"


def test_the_servers_certificate_is_checked_against_the_given_authority_only() -> None:
    tls = parse(kubeconfig(cluster={"certificate-authority-data": data(AUTHORITY.pair.certificate)})).tls
    assert tls is not None
    assert tls.verify_mode is ssl.CERT_REQUIRED
    assert tls.check_hostname
    (found,) = tls.get_ca_certs()
    assert dict(pair[0] for pair in found["subject"])["commonName"].startswith("flotilla-sandbox-test-ca@")


def test_verification_is_off_only_when_asked_for() -> None:
    tls = parse(kubeconfig(cluster={"insecure-skip-tls-verify": True})).tls
    assert tls is not None
    assert tls.verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize(
    ("cluster", "field"),
    [
        ({}, ""),
        ({"insecure-skip-tls-verify": False}, ""),
        ({"insecure-skip-tls-verify": True}, "insecure-skip-tls-verify is true"),
        ({"server": "http://10.0.0.1:8080"}, "server is an http address"),
        ({"server": "http://api.example", "insecure-skip-tls-verify": True}, "server is an http address"),
        ({"server": "http://127.0.0.1:8001"}, ""),
        ({"server": "http://[::1]:8001"}, ""),
        ({"server": "http://localhost:8001"}, ""),
        ({"server": "http://localhost.example:8001"}, "server is an http address"),
        ({"server": "http://127.0.0.1@10.0.0.1"}, "server is an http address"),
    ],
)
def test_a_kubeconfig_says_which_field_leaves_requests_open(cluster: dict[str, Any], field: str) -> None:
    found = parse(kubeconfig(cluster=cluster)).insecure
    assert field in found
    assert bool(found) == bool(field)
    assert not found or found.endswith("set certificate-authority-data to the CA of the server")


def test_proxy_and_server_name_are_taken_over() -> None:
    connection = parse(kubeconfig(cluster={"proxy-url": "http://proxy:3128", "tls-server-name": "kubernetes"}))
    assert (connection.proxy, connection.server_name) == ("http://proxy:3128", "kubernetes")


BAD: dict[str, tuple[bytes, str]] = {
    "neither YAML nor JSON": (b"{", "neither YAML nor JSON"),
    "binary": (b"\xff\xfe\x00", "neither YAML nor JSON"),
    "a list": (b"[]", "not an object"),
    "nothing": (b"", "not an object"),
    "no current context": (kubeconfig(**{"current-context": ""}), "current-context"),
    "a current context that is missing": (kubeconfig(**{"current-context": "x"}), "no context named 'x'.*main"),
    "contexts that are no list": (kubeconfig(contexts=7), "no context named 'main'.*none"),
    "contexts of text": (kubeconfig(contexts=["main"]), "no context named 'main'"),
    "a context without content": (kubeconfig(contexts=[{"name": "main"}]), "no context named 'main'"),
    "a cluster that is missing": (kubeconfig(clusters=[]), "no cluster named 'c'"),
    "a user that is missing": (kubeconfig(users=None), "no user named 'u'"),
    "no server": (kubeconfig(cluster={"server": None}), "server is not an http"),
    "a server without scheme": (kubeconfig(cluster={"server": "1.2.3.4:6443"}), "not an http"),
    "a socks proxy": (
        kubeconfig(cluster={"proxy-url": "socks5://p:1"}),
        "and SOCKS is not spoken: name an HTTP proxy",
    ),
    "bad base64": (kubeconfig(cluster={"certificate-authority-data": "*"}), "authority-data is not base64"),
    "base64 that is no text": (kubeconfig(cluster={"certificate-authority-data": 12}), "authority-data is not text"),
    "an authority that is no PEM": (
        kubeconfig(cluster={"certificate-authority-data": data("hello")}),
        "certificate-authority is not a PEM",
    ),
    "an authority that is no text": (
        kubeconfig(cluster={"certificate-authority-data": data(b"\xff")}),
        "certificate-authority is not a PEM",
    ),
    "a certificate without its key": (
        kubeconfig({"client-certificate-data": data(CLIENT.certificate)}),
        "client-key is missing",
    ),
    "a key without its certificate": (
        kubeconfig({"client-key-data": data(CLIENT.key)}),
        "client-certificate is missing",
    ),
    "another certificate's key": (
        kubeconfig(
            {
                "client-certificate-data": data(CLIENT.certificate),
                "client-key-data": data(AUTHORITY.client("bob").key),
            }
        ),
        "not a PEM pair",
    ),
    "an encrypted key": (
        kubeconfig({"client-certificate-data": data(CLIENT.certificate), "client-key-data": data(locked(CLIENT.key))}),
        "not a PEM pair",
    ),
    "a token with a line break inside": (kubeconfig({"token": "a\nX-Injected: b"}), "cannot carry"),
    "a token that is no ASCII": (kubeconfig({"token": "ключ"}), "cannot carry"),
}


@pytest.mark.parametrize(("text", "message"), BAD.values(), ids=BAD.keys())
def test_a_kubeconfig_that_cannot_be_used_is_refused_with_the_entry_named(text: bytes, message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        parse(text)


OF_THE_AGENT: dict[str, tuple[bytes, str]] = {
    "an authority in a file": (kubeconfig(cluster={"certificate-authority": "/etc/passwd"}), "only inline data"),
    "a client certificate in a file": (kubeconfig({"client-certificate": "/tls.crt"}), "only inline data"),
    "a key in a file": (
        kubeconfig({"client-certificate-data": data(CLIENT.certificate), "client-key": "/tls.key"}),
        "only inline data",
    ),
    "a token in a file": (kubeconfig({"tokenFile": "/var/run/secrets/token"}), "only inline data"),
    "a program": (kubeconfig({"exec": {"command": "sh"}}), "credential plugins"),
    "a program that is null": (kubeconfig({"exec": None}), "credential plugins"),
    "an auth provider": (kubeconfig({"auth-provider": {"name": "oidc"}}), "credential plugins"),
}


@pytest.mark.parametrize(("text", "message"), OF_THE_AGENT.values(), ids=OF_THE_AGENT.keys())
def test_a_secrets_kubeconfig_may_not_use_what_is_the_agents_own(text: bytes, message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        parse(text)


FIELDS = ["name", "context", "cluster", "user", "server", "token"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3),
        max_leaves=8,
    ),
    st.sampled_from(["contexts", "clusters", "users"]),
)
def test_whatever_stands_in_a_section_gives_a_connection_or_a_reason(value: Any, section: str) -> None:
    plain = kubeconfig(cluster={"server": "http://127.0.0.1"}, **{section: value})
    with contextlib.suppress(InvalidConfig):
        assert parse(plain).server.startswith("http")


def test_inline_client_certificates_are_loaded() -> None:
    user = {"client-certificate-data": data(CLIENT.certificate), "client-key-data": data(CLIENT.key)}
    assert parse(kubeconfig(user)).tls is not None


def test_relative_files_are_looked_up_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.pair.certificate)
    (tmp_path / "config").write_bytes(kubeconfig(cluster={"certificate-authority": "ca.crt"}))
    tls = load(str(tmp_path / "config")).tls
    assert tls is not None
    assert len(tls.get_ca_certs()) == 1


async def test_a_rotated_token_file_is_read_again_after_the_server_refused_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one\n")
    auth = FileAuth(tmp_path / "token")
    assert await auth.header() == "Bearer one"
    (tmp_path / "token").write_text("two\n")
    assert await auth.header() == "Bearer one"
    auth.expire()
    assert await auth.header() == "Bearer two"


async def test_a_rotated_token_file_is_read_again_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("one")
    auth = FileAuth(tmp_path / "token")
    await auth.header()
    (tmp_path / "token").write_text("two")
    monkeypatch.setattr(config, "TOKEN_REREAD_SECONDS", 0.0)
    assert await auth.header() == "Bearer two"


async def test_a_token_file_wins_over_a_token_and_its_loss_is_told(tmp_path: Path) -> None:
    text = kubeconfig({"token": "inline", "tokenFile": "token"})
    auth = parse(text, base=tmp_path).auth
    with pytest.raises(InvalidConfig, match=r"cannot read .*token"):
        await auth.header()
    (tmp_path / "token").write_text("from-file")
    assert await auth.header() == "Bearer from-file"


def test_without_any_kubeconfig_the_error_says_how_to_give_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="--kubeconfig or \\$KUBECONFIG"):
        load(str(tmp_path / "missing"))


async def test_the_environment_names_the_kubeconfig_when_no_flag_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_bytes(kubeconfig())
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert await load().auth.header() == "Bearer t0ken"


@pytest.mark.parametrize(
    ("host", "server"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
async def test_in_a_pod_the_service_account_is_used(
    host: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    for name, text in {"token": b"sa", "namespace": b"flotilla\n", "ca.crt": AUTHORITY.pair.certificate}.items():
        (tmp_path / name).write_bytes(text)
    connection = load()
    assert (connection.server, connection.namespace) == (server, "flotilla")
    assert await connection.auth.header() == "Bearer sa"


def test_no_credential_shows_in_what_a_debugger_prints() -> None:
    assert "t0ken" not in repr(parse(kubeconfig()).auth)
