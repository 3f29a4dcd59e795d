"""hack/record: record the pictures of terminals in docs/pictures."""

import argparse
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from hack.lab.recording import picture, terminal
from hack.lab.sandbox import Sandbox
from hack.lab.sandbox.objects import REPOSITORY

PICTURES = REPOSITORY / "docs/pictures"
BIN = REPOSITORY / ".venv/bin"
_ROWS = 28
_SECONDS_A_LINE = 0.4
_SGR = re.compile(r"\x1b\[[0-9;]*m")
_SHOWN_FOLDER = "/tmp/flotilla"
"""Replacement for the temporary folder of a recording, whose name differs from run to run."""


class Failed(Exception):
    """A command of a recording failed."""


def main(words: Sequence[str] | None = None) -> int:
    wanted = parse(words)
    PICTURES.mkdir(exist_ok=True)
    for name in wanted:
        print(f"hack/record: {name}", file=sys.stderr)
        try:
            made = RECORDINGS[name]()
        except Failed as failed:
            print(f"hack/record: {name}: {failed}", file=sys.stderr)
            return 1
        for file, text in made.items():
            (PICTURES / f"{file}.svg").write_text(text)
            print(f"hack/record: wrote docs/pictures/{file}.svg ({len(text) // 1024} KiB)", file=sys.stderr)
    return 0


def parse(words: Sequence[str] | None = None) -> list[str]:
    """Return the names of the recordings to make."""
    parser = argparse.ArgumentParser("hack/record", description=__doc__)
    parser.add_argument("recording", nargs="*", help=f"which to make: {', '.join(RECORDINGS)}; without any, all")
    chosen: list[str] = parser.parse_args(words).recording
    if unknown := sorted(set(chosen) - RECORDINGS.keys()):
        parser.error(f"there is no recording {', '.join(unknown)}; there are {', '.join(RECORDINGS)}")
    return chosen or list(RECORDINGS)


def demo() -> dict[str, str]:
    """Return pictures of `hack/demo --once`, run by the command that the script calls after its set-up."""
    columns, title = 80, "hack/demo --once"
    with tempfile.TemporaryDirectory(prefix="flotilla-record-") as folder:
        directory = Path(folder) / "clusters"
        shown = _run([str(BIN / "flotilla"), "demo", "--once", "--dir", str(directory)], columns)
    lines = [_prompt(title), *_tidy(shown, columns, folder)]
    steps = picture.svg(title, "demo-steps", lines, columns, _ROWS, list(frames(lines)))
    return {"demo": picture.svg(title, "demo", lines, columns), "demo-steps": steps}


def frames(lines: Sequence[str]) -> Iterator[picture.Frame]:
    """Yield a frame after each command, after each paragraph, and at the end, each long enough to be read."""
    before = 0
    for number, line in enumerate([*lines, ""], 1):
        plain = _SGR.sub("", line).strip()
        if plain and not plain.startswith("$ "):
            continue
        end = min(number, len(lines)) - (not plain and number <= len(lines))
        if end > before:
            yield picture.Frame(end, 1 + _SECONDS_A_LINE * (end - before) + (4 if number > len(lines) else 0))
            before = end


EXPLAIN = (
    "kubectl cordon admiralty-default-us",
    "kubectl run web --image=nginx --annotations=multicluster/elect=",
    "kubectl wait pod/web --for=condition=Ready --timeout=60s",
    "flotilla explain pod web",
    "kubectl run far --image=nginx --annotations=multicluster/elect= --annotations=multicluster/targets=us",
    "kubectl wait pod/far --for=condition=PodScheduled=False --timeout=60s",
    "flotilla explain pod far",
    "kubectl uncordon admiralty-default-us",
    "kubectl wait pod/far --for=condition=Ready --timeout=60s",
)
"""Commands of the picture `explain`: one pod that runs, and one that waits until its target accepts pods again."""


def explain() -> dict[str, str]:
    """Return the picture of `flotilla explain pod`, for a pod that runs and for one that waits."""
    columns = 120
    return {"explain": picture.svg("flotilla explain pod", "explain", list(_in_a_sandbox(EXPLAIN, columns)), columns)}


def _in_a_sandbox(commands: Sequence[str], columns: int) -> Iterator[str]:
    """Run commands in the source of a sandbox, and yield each with the lines that it has printed."""
    with tempfile.TemporaryDirectory(prefix="flotilla-record-") as folder:
        directory = Path(folder) / "clusters"
        flotilla = str(BIN / "flotilla")
        try:
            _run([flotilla, "sandbox", "up", "--join", "--dir", str(directory)], columns)
            sandbox = Sandbox.open(directory)
            kubectl = Path(sandbox.plan.programs["kubectl"]).parent
            variables = {
                "KUBECONFIG": str(sandbox["cd"].kubeconfig),
                "PATH": os.pathsep.join((str(BIN), str(kubectl), os.environ["PATH"])),
            }
            _run(["kubectl", "wait", "target", "--all", "--for=condition=Ready", "--timeout=60s"], columns, variables)
            for command in commands:
                printed = _tidy(_run(shlex.split(command), columns, variables), columns, folder)
                yield from (_prompt(command), *printed)
                if len(printed) > 1:
                    yield ""
        finally:
            _run([flotilla, "sandbox", "down", "--dir", str(directory)], columns)


def _run(command: Sequence[str], columns: int, variables: dict[str, str] | None = None) -> str:
    """Return the output of a command on a terminal. Raises Failed, with the output, if its exit status is not 0."""
    environment = {**os.environ, **(variables or {})}
    environment.pop("NO_COLOR", None)
    shown = terminal.run(command, columns, environment, REPOSITORY)
    if shown.status:
        raise Failed(f"{shlex.join(command)} ended with {shown.status}:\n{shown.output}")
    return shown.output


def _prompt(command: str) -> str:
    return f"\x1b[1;32m$\x1b[0m \x1b[1m{command}\x1b[0m"


def _tidy(output: str, columns: int, folder: str) -> list[str]:
    """Return the lines on the screen, without paths of this machine: of the recording's folder, checkout and home."""
    for path, shown in ((Path(folder), _SHOWN_FOLDER), (REPOSITORY, "."), (Path.home(), "~")):
        if path != Path(path.anchor):
            output = output.replace(str(path), shown)
    return terminal.lines(output, columns)


RECORDINGS: dict[str, Callable[[], dict[str, str]]] = {"demo": demo, "explain": explain}

if __name__ == "__main__":
    sys.exit(main())
