import pytest

from agent.model.hostport import split


@pytest.mark.parametrize(
    ("text", "host", "port"), [("0.0.0.0:80", "0.0.0.0", 80), ("[::1]:0", "::1", 0), (":65535", "", 65535)]
)
def test_host_and_port_are_told_apart(text: str, host: str, port: int) -> None:
    assert split(text) == (host, port)


@pytest.mark.parametrize("text", ["", "localhost", "a:", "a:b", "a:65536", "a:-1", "a:٣"])
def test_all_else_is_refused_with_what_it_should_be(text: str) -> None:
    with pytest.raises(ValueError, match="must be HOST:PORT"):
        split(text)
