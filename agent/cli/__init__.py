"""The command `flotilla`: one file per verb."""

import importlib
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

_BEFORE_VERBS = ("--kubeconfig", "--context", "-n", "--namespace")
_VERBS = {
    "join": "join",
    "leave": "leave",
    "export": "export",
    "targets": "listing",
    "pods": "listing",
    "top": "top",
    "links": "links",
    "clusters": "clusters",
    "clustersets": "clusters",
    "bind": "clusters",
    "hub": "hub",
    "doctor": "doctor",
    "move": "move",
    "moves": "move",
    "drain": "drain",
    "undrain": "drain",
    "failover": "failover",
    "orphans": "orphans",
    "version": "version",
    "uninstall": "uninstall",
    "upgrade": "upgrade",
    "explain": "explain",
}
"""The verbs with their modules, in the order in which the help lists them."""
_CHECKOUT = Path(__file__).parents[2]
"""Root of the repository; site-packages if the wheel is installed."""
_LAB_VERBS = ("demo", "sandbox")
"""Verbs of a checkout, whose modules are in `hack/lab/cli`. The wheel and the image lack them."""
_GROUPS = ("explain", "hub", "sandbox")
"""Verbs that are followed by another one."""

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""


def main() -> None:
    """Entry point of the console script."""
    try:
        _run()
    except KeyboardInterrupt:
        # Includes an interrupt while packages are being loaded.
        sys.exit(INTERRUPTED)


def _run() -> None:
    try:
        import typer
    except ImportError:
        sys.exit("flotilla: the command line needs more packages: pip install 'flotilla[cli]'")
    app = typer.Typer(help="Many Kubernetes clusters that work as one.", no_args_is_help=True)
    app.callback()(lambda: None)
    words = behind_the_verb(sys.argv[1:])
    _add_verbs(app, words[:1])
    app(words)


def _add_verbs(app: "typer.Typer", typed: Sequence[str]) -> None:
    """Add the typed verb and load its module alone; add all verbs for help, completion and a misspelt verb."""
    modules = verb_modules()
    if typed and typed[0] in _LAB_VERBS and typed[0] not in modules:
        sys.exit(f"flotilla {typed[0]}: only a checkout of the repository has this verb: clone it, and run hack/setup")
    # The console script does not look for modules in the checkout.
    sys.path.append(str(_CHECKOUT))
    for verb in typed if typed and typed[0] in modules else modules:
        module = importlib.import_module(modules[verb])
        if verb in _GROUPS:
            app.add_typer(module.app, name=verb)
        else:
            app.command()(getattr(module, verb))


def verb_modules() -> dict[str, str]:
    """Return the modules of all verbs, in the order in which the help lists them."""
    modules = {verb: f"agent.cli.{module}" for verb, module in _VERBS.items()}
    if (_CHECKOUT / "hack/lab/cli").is_dir():
        modules |= {verb: f"hack.lab.cli.{verb}" for verb in _LAB_VERBS}
    return modules


def behind_the_verb(words: Sequence[str]) -> list[str]:
    """Return the typed words with cluster options moved behind the verb: as with kubectl, they may precede it."""
    rest = list(words)
    moved: list[str] = []
    while rest and rest[0].partition("=")[0] in _BEFORE_VERBS:
        count = 1 if "=" in rest[0] else 2
        moved, rest = [*moved, *rest[:count]], rest[count:]
    return [*rest, *moved]


def complete() -> None:
    """Entry point of `kubectl_complete-flotilla`, which kubectl runs to complete words after `kubectl flotilla`.

    kubectl expects one suggestion per line, then a directive: `:4` disables the completion of file names.
    """
    words = ["flotilla", *sys.argv[1:]]
    sys.argv = ["flotilla"]
    os.environ |= {
        "_FLOTILLA_COMPLETE": "complete_bash",
        "COMP_WORDS": shlex.join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    try:
        main()
    finally:
        print(":4")
