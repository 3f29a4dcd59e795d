"""Output of the demo: a live table on a terminal, else plain lines."""

import textwrap
import time
from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hack.lab.demo.fleet import DemoState, Proxy, spread

SAMPLE = 5
"""Pods in the table that remains when a step has succeeded."""
LINE_SECONDS = 3.0
"""Seconds between two progress lines of a step if there is no terminal."""
_FRAME = 6
"""Lines of a terminal that the live table does not use."""
_COLORS = {"Running": "green", "Succeeded": "green", "Pending": "yellow", "Failed": "red"}


class Display:
    """Output on one console. Call for each step `begin`, `watch`, `show` repeatedly, then `done` or `failed`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._fleet: DemoState | None = None
        self._note = ""
        self._app = ""
        self._began = 0.0
        self._last_line = 0.0
        self._last_note = ""

    @property
    def elapsed(self) -> float:
        """Seconds since the step began."""
        return time.monotonic() - self._began

    def say(self, text: str, style: str = "") -> None:
        """Print lines without wrapping them, so that commands can be copied."""
        self._console.print(Text(text, style), soft_wrap=True, highlight=False)

    def begin(self, title: str, text: str, command: str = "", app: str = "") -> None:
        """Print the heading of a step."""
        self._console.print()
        self.say(title, "bold")
        self.say(self._wrapped("  ", text))
        if command:
            self.say(f"  $ {command}", "cyan")
        self._fleet, self._app, self._note = None, app, ""
        self._began = self._last_line = time.monotonic()
        self._last_note = ""

    def watch(self) -> None:
        """Show the progress of the step from now on: a live table on a terminal that can move its cursor."""
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(get_renderable=self._picture, console=self._console, transient=True)
            self._live.start()

    def show(self, fleet: DemoState, reasons: Sequence[str]) -> None:
        """Update the progress: the state of the clusters, and why the check of the step still fails."""
        self._fleet = fleet
        self._note = how_far(fleet, self._app) if self._app else "; ".join(reasons[:2])
        now = time.monotonic()
        if self._live is None and self._note != self._last_note and now - self._last_line >= LINE_SECONDS:
            self._last_line, self._last_note = now, self._note
            self.say(self._wrapped(f"  {self.elapsed:5.1f} s  ", self._note))

    def close(self) -> None:
        """End the live table, if there is one."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def done(self, summary: str) -> None:
        """Print that the step succeeded."""
        self.close()
        line = Text.assemble(("  ✓ ", "green"), summary, (f"  ({self.elapsed:.1f} s)", "dim"))
        self._console.print(line, soft_wrap=True, highlight=False)
        if self._fleet is not None and (proxies := self._fleet.of(self._app)):
            self._console.print(_indented(table(proxies, SAMPLE)))

    def failed(self, title: str, reasons: Sequence[str], details: Sequence[str]) -> None:
        """Print that a step failed, and why."""
        self.close()
        self.say(f"✗ {title}: failed after {self.elapsed:.1f} s", "bold red")
        for reason in reasons[:12]:
            self.say(f"  - {reason}", "red")
        if len(reasons) > 12:
            self.say(f"  - and {len(reasons) - 12} more", "red")
        for line in details:
            self.say(line)

    def _wrapped(self, first: str, text: str) -> str:
        width = self._console.width - 1
        return textwrap.fill(text, width, initial_indent=first, subsequent_indent=" " * len(first))

    def _picture(self) -> RenderableType:
        line = Text(f"  {self.elapsed:5.1f} s  {self._note}", no_wrap=True, overflow="ellipsis")
        proxies = self._fleet.of(self._app) if self._fleet is not None and self._app else []
        if not proxies:
            return line
        rows = max(self._console.size.height - _FRAME, 3)
        return Group(_indented(table(proxies, rows)), line)


def _indented(picture: Table) -> RenderableType:
    return Padding(picture, (0, 0, 0, 2), expand=False)


def how_far(fleet: DemoState, app: str) -> str:
    """Return one line: the number of pods of an application by phase, and of delegates by cluster."""
    proxies = fleet.of(app)
    phases = spread("Terminating" if proxy.deleting else proxy.phase for proxy in proxies)
    delegates = spread(delegate.cluster for delegate in fleet.delegates)
    return f"{len(proxies)} proxy pods{f' ({phases})' if phases else ''}; delegates: {delegates or 'none'}"


def table(proxies: Sequence[Proxy], limit: int) -> Table:
    """Return a table of proxy pods with their virtual nodes and the nodes of their delegates."""
    picture = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for title in ("PROXY POD", "VIRTUAL NODE", "DELEGATE ON", "REGION", "STATUS"):
        picture.add_column(title, no_wrap=True)
    for cells in _rows(proxies[:limit]):
        picture.add_row(*cells)
    if len(proxies) > limit:
        picture.add_row(f"... {len(proxies) - limit} more", style="dim")
    return picture


def _rows(proxies: Sequence[Proxy]) -> Iterator[tuple[RenderableType, ...]]:
    for proxy in proxies:
        delegate = proxy.delegates[0] if proxy.delegates else None
        status = "Terminating" if proxy.deleting else proxy.phase
        where = (delegate.node or "-", delegate.region or "-") if delegate else ("-", "-")
        yield proxy.name, proxy.node or "-", *where, Text(status, _COLORS.get(status, "yellow"))
