"""SVG of terminal lines, exported by rich: real text, no fonts from the network."""

import io
from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
THEME = TerminalTheme(
    (13, 17, 23),
    (230, 237, 243),
    [(110, 118, 129), (255, 123, 114), (63, 185, 80), (210, 153, 34),
     (88, 166, 255), (188, 140, 255), (57, 197, 207), (177, 186, 196)],
    [(139, 148, 158), (255, 161, 152), (86, 211, 100), (227, 179, 65),
     (121, 192, 255), (210, 168, 255), (86, 212, 221), (255, 255, 255)],
)  # fmt: skip
"""Light text on a dark terminal, which is legible on light and on dark pages."""

_LINE = 24.4
_TOP = 40
_BORDER = 8
"""Height of a line, of the title bar, and width of the border, in the units of rich's SVG."""

_FORMAT = """<svg viewBox="0 0 {width} HEIGHT" xmlns="http://www.w3.org/2000/svg">
<style>
text {{ font-family: FONTS; font-size: {char_height}px; white-space: pre; }}
MOTION
{styles}
</style>
<defs>
<clipPath id="{unique_id}-window"><rect x="0" y="0" width="{terminal_width}" height="WINDOW"/></clipPath>
{lines}
</defs>
<rect width="{width}" height="HEIGHT" rx="8" fill="BACKGROUND"/>
<circle cx="22" cy="20" r="7" fill="#ff5f57"/><circle cx="44" cy="20" r="7" fill="#febc2e"/>
<circle cx="66" cy="20" r="7" fill="#28c840"/>
<text x="50%" y="26" text-anchor="middle" fill="FOREGROUND">TITLE</text>
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-window)">
<g class="{unique_id}-lines">
{backgrounds}
{matrix}
</g>
</g>
</svg>
"""


class Frame(NamedTuple):
    """A moment of a recording: number of printed lines, and the seconds for which it is shown."""

    lines: int
    seconds: float


def svg(title: str, name: str, lines: Sequence[str], columns: int, rows: int = 0, frames: Sequence[Frame] = ()) -> str:
    """Return the SVG of a terminal with these lines, which may have SGR sequences, under a title bar.

    With `frames` it is a terminal of that many rows that scrolls through them again and again. The last frame is shown
    to users who have asked their system for less motion.
    """
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in lines:
        console.print(Text.from_ansi(line), soft_wrap=True, highlight=False)
    shown = rows or len(lines)
    words = {
        "FONTS": FONTS,
        "TITLE": title,
        "HEIGHT": f"{_TOP + shown * _LINE + 2 * _BORDER:.0f}",
        "WINDOW": f"{shown * _LINE + 2:.0f}",  # Space for descenders, but not for the next line.
        "BACKGROUND": THEME.background_color.hex,
        "FOREGROUND": THEME.foreground_color.hex,
        "MOTION": _motion(name, rows, frames),
    }
    template = _FORMAT
    for word, value in words.items():
        template = template.replace(word, value)
    found = console.export_svg(title=title, theme=THEME, code_format=template, unique_id=name)
    return "\n".join(line.strip() for line in found.splitlines() if line.strip()) + "\n"


def _motion(name: str, rows: int, frames: Sequence[Frame]) -> str:
    """Return the CSS, with braces doubled, that scrolls each frame's last line into the window."""
    if not frames:
        return ""
    whole = sum(frame.seconds for frame in frames)
    steps, passed = [], 0.0
    for frame in frames:
        steps.append(f"{100 * passed / whole:.2f}% {{{{ transform: {_shifted(rows, frame)} }}}}")
        passed += frame.seconds
    return (
        f".{name}-lines {{{{ transform: {_shifted(rows, frames[-1])};"
        f" animation: {name} {whole:.1f}s step-end infinite }}}}\n"
        f"@keyframes {name} {{{{ {' '.join(steps)} }}}}\n"
        f"@media (prefers-reduced-motion: reduce) {{{{ .{name}-lines {{{{ animation: none }}}} }}}}"
    )


def _shifted(rows: int, frame: Frame) -> str:
    return f"translateY({min(rows - frame.lines, 0) * _LINE:.1f}px)"
