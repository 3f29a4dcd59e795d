"""Ports that a process's network namespace listens on, queried from the kernel."""

import os
import socket
import subprocess
import sys

import pytest

from hack.lab.sandbox import listening
from hack.lab.sandbox.listening import is_listening

ELSEWHERE = "import socket, time; server = socket.create_server(('', 4321)); print('up', flush=True); time.sleep(60)"


@pytest.fixture(params=["sock_diag", "without"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run once with a kernel that answers, once with one that lacks this netlink protocol."""
    if request.param == "without":
        monkeypatch.setattr(listening, "_NETLINK_SOCK_DIAG", 31)


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_listening_port_is_seen(family: socket.AddressFamily, address: str) -> None:
    with socket.socket(family) as server:
        server.bind((address, 0))
        port = server.getsockname()[1]
        assert not is_listening(os.getpid(), port)
        server.listen()
        assert is_listening(os.getpid(), port)
        with socket.create_connection((address, port)) as client:
            assert not is_listening(os.getpid(), client.getsockname()[1])
    assert not is_listening(os.getpid(), port)


@pytest.mark.usefixtures("kernel")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes network namespaces")
def test_it_is_the_network_of_the_process_that_counts() -> None:
    here = os.readlink("/proc/thread-self/ns/net")
    with subprocess.Popen(["unshare", "--net", sys.executable, "-c", ELSEWHERE], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        assert is_listening(process.pid, 4321)
        assert not is_listening(os.getpid(), 4321)
        process.kill()
    assert os.readlink("/proc/thread-self/ns/net") == here


def test_of_a_process_that_is_gone_nothing_listens() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert not is_listening(process.pid, 6443)
