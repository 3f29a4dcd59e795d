"""Exit statuses and error messages of a command."""

import asyncio
import importlib.util
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
import yaml

from agent import cli
from agent.cli import INTERRUPTED, behind_the_verb
from agent.cli.options import Failed, connection, finish, run_interruptible, told
from agent.cli.output import as_table
from agent.kube import config, kubeconfig
from agent.kube.errors import Forbidden, InvalidConfig, Unauthorized, Unreachable
from hack.lab.sandbox.certificates import Authority
from tests.cli.command import flotilla, typed


async def fail(error: Exception) -> None:
    raise error


async def give() -> str:
    return "done"


def test_what_the_work_gives_is_given() -> None:
    assert finish(give()) == "done"


@pytest.mark.parametrize("error", [Failed("no pod x"), InvalidConfig("no kubeconfig at /x")])
def test_a_failure_is_one_line_on_standard_error_and_status_1(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended:
        finish(fail(error))
    assert ended.value.exit_code == 1
    written = capsys.readouterr()
    assert (written.out, written.err) == ("", f"flotilla: {error}\n")


async def interrupted(*, cancelled: bool) -> None:
    """Simulate a signal that arrives just after a callback has found its future not done."""
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    asyncio.get_running_loop().call_soon(future.set_result, None)
    if cancelled:
        signal.raise_signal(signal.SIGINT)
    await asyncio.sleep(0)


def test_a_callback_that_an_interrupt_overtook_shows_no_stack(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_interruptible(interrupted(cancelled=True))
    assert caplog.text == ""
    run_interruptible(interrupted(cancelled=False))
    assert "InvalidStateError" in caplog.text


def test_what_an_api_server_refuses_comes_with_a_remedy() -> None:
    assert "renew them" in told(Unauthorized(401, "Unauthorized", "Unauthorized"))
    right = 'secrets is forbidden: User "x" cannot create resource "secrets"'
    assert told(Forbidden(403, "Forbidden", right), "context cd") == (
        f"context cd does not let you: {right}; ask its administrator for this right, or choose another user"
    )
    away = told(Unreachable("no answer within 3 s"))
    assert "check the server's address" in away
    assert away.endswith("choose another context")


def test_a_plain_table_has_columns_and_no_blanks_at_the_ends_of_lines() -> None:
    assert as_table((["A", "LONG"], [["long", "b"], ["c", ""]]), terminal=False) == "A     LONG\nlong  b\nc"


@pytest.mark.parametrize(
    ("typed", "want"),
    [
        (["targets", "--context", "cd"], ["targets", "--context", "cd"]),
        (["--context", "cd", "targets", "us"], ["targets", "us", "--context", "cd"]),
        (
            ["--kubeconfig=/x", "-n", "team", "explain", "pod", "web"],
            ["explain", "pod", "web", "--kubeconfig=/x", "-n", "team"],
        ),
        (["--context"], ["--context"]),
        (["--help"], ["--help"]),
        ([], []),
    ],
)
def test_the_options_of_a_cluster_may_stand_before_the_verb_as_with_kubectl(typed: list[str], want: list[str]) -> None:
    assert behind_the_verb(typed) == want


def test_a_kubeconfig_or_a_context_counts_more_than_the_pod_that_a_command_runs_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = {"token": b"sa", "namespace": b"flotilla", "ca.crt": Authority("x", datetime.now(UTC)).pair.certificate}
    for name, content in account.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(config, "SERVICE_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.delenv("KUBERNETES_SERVICE_PORT", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert connection("", "").server == "https://10.0.0.1:443"
    with pytest.raises(InvalidConfig, match=r"no kubeconfig at ~/\.kube/config"):
        connection("", "us")
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(kubeconfig.with_token("us", {"server": "https://us:6443"}, "team", "t0ken")))
    assert connection(str(file), "").server == "https://us:6443"
    monkeypatch.setenv("KUBECONFIG", str(file))
    assert connection("", "us").namespace == "team"
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    with pytest.raises(InvalidConfig, match=r"no kubeconfig at .*/missing"):
        connection("", "")


@pytest.mark.parametrize(
    "verb",
    [
        pytest.param(("targets",), id="targets"),
        pytest.param(("top", "--once"), id="top", marks=pytest.mark.seldom),
        pytest.param(("drain", "us"), id="drain", marks=pytest.mark.seldom),
    ],
)
async def test_who_interrupts_a_command_sees_no_stack(verb: tuple[str, ...], tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    address = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(kubeconfig.with_token("us", {"server": address}, "team", "t0ken")))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agent.cli", *verb, "--kubeconfig", str(file)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    await asyncio.wait_for(asked.wait(), 60)
    process.send_signal(signal.SIGINT)
    output, _ = await process.communicate()
    server.close()
    await server.wait_closed()
    assert (process.returncode, output.decode().strip()) == (INTERRUPTED, "")


@pytest.mark.parametrize("words", ["targets --context u", "join --target-context u", "leave --target-context u"])
async def test_names_of_contexts_are_completed(words: str, tmp_path: Path) -> None:
    files = []
    for name in ("cd", "us", "uk"):
        files.append(tmp_path / name)
        files[-1].write_text(yaml.safe_dump(kubeconfig.with_token(name, {"server": "https://x"}, "team", "t0ken")))
    environment = {
        "KUBECONFIG": os.pathsep.join(map(str, files)),
        "_FLOTILLA_COMPLETE": "complete_bash",
        "COMP_WORDS": f"flotilla {words}",
        "COMP_CWORD": "3",
    }
    code, output, errors = await flotilla(**environment)
    assert (code, output.split(), errors) == (0, ["uk", "us"], "")


async def test_help_knows_every_verb_and_a_command_loads_no_other() -> None:
    everything = (await flotilla("--help"))[1]
    for verb, module in cli.verb_modules().items():
        code, output, _ = await flotilla(verb, "--help")
        assert code == 0
        assert f"Usage: flotilla {verb} " in output
        assert f" {verb} " in everything
        assert importlib.util.find_spec(module)
    program = (
        "import atexit, sys; from agent.cli import main; sys.argv[1:] = ['version', '--client'];"
        "atexit.register(lambda: print(*sys.modules)); main()"
    )
    code, output, _ = await typed(sys.executable, "-c", program)
    assert code == 0
    assert set(output.split()) & set(cli.verb_modules().values()) == {"agent.cli.version"}
