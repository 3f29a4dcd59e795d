"""The command `flotilla`: one file per verb."""

import sys


def main() -> None:
    """Entry point of the console script."""
    try:
        import typer
    except ImportError:
        sys.exit("flotilla: the command line needs more packages: pip install 'flotilla[cli]'")
    from agent.cli import demo, explain, export, join, leave, sandbox, uninstall

    app = typer.Typer(help="Many Kubernetes clusters that work as one.", no_args_is_help=True, add_completion=False)
    app.callback()(lambda: None)
    app.command()(demo.demo)
    app.command()(join.join)
    app.command()(leave.leave)
    app.command()(export.export)
    app.command()(uninstall.uninstall)
    app.add_typer(explain.app, name="explain")
    app.add_typer(sandbox.app, name="sandbox")
    app()
