"""Notes which functions of ours are called for one pod. Given to `sys.setprofile`.

Coroutines interleave, so a call is told to belong to the pod by its context: the log context, which the runtime sets
around each reconciliation and which tasks inherit, names the room and its key.
"""

import dis
import inspect
import json
from contextvars import ContextVar
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from agent.base.log import _context as log_context

UNCOUNTED = ("agent.kube", "agent.base", "agent.runtime")
"""Below what is traced: every part of the product stands on them."""
ENTRANCES = (("webhook.handlers", "_served.serve"), ("agent.extender.server", "Extender._bind"))
"""Where requests come in instead of keys: what their tasks do from there on is about the only pod there is."""
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
_LOCALS = ".<locals>."


class Place(NamedTuple):
    """A function of ours: its module, its name with its class, where its body begins."""

    module: str
    function: str
    start: int


Calls = dict[tuple[str, str], int]
"""Module and function to how often it was called, in the order of the first calls."""


class Recorder:
    """`rooms` are the calls by what they were made for: the name of a controller, or of an entrance."""

    def __init__(self, repository: Path, pod: str) -> None:
        self._root = f"{repository}/"
        self._telling = (f"{repository}/agent/kube/", f"{repository}/agent/base/listeners.py")
        self._pod = pod
        self._places: dict[CodeType, Place | None] = {}
        self._entered: ContextVar[str] = ContextVar("entered", default="")
        self.rooms: dict[str, Calls] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """One event of the interpreter."""
        if event != "call":
            return
        code = frame.f_code
        try:
            place = self._places[code]
        except KeyError:
            place = self._places[code] = self._place(code)
        if place is not None and frame.f_lasti <= place.start:
            room = self._room(place)
            if room and not self._is_told(frame):
                calls = self.rooms.setdefault(room, {})
                key = (place.module, place.function)
                calls[key] = calls.get(key, 0) + 1

    def _place(self, code: CodeType) -> Place | None:
        ours = code.co_filename.startswith((f"{self._root}agent/", f"{self._root}webhook/"))
        if not ours or not code.co_flags & inspect.CO_OPTIMIZED:
            # Of others, or the body of a class or module, which runs on import.
            return None
        module = module_of(code.co_filename.removeprefix(self._root))
        if module.startswith(tuple(f"{each}." for each in UNCOUNTED)) or module in UNCOUNTED:
            return None
        function = function_of(code.co_qualname)
        return Place(module, function, first_instruction(code)) if function else None

    def _room(self, place: Place) -> str:
        fields = log_context.get()
        if fields is not None and "controller" in fields:
            return fields["controller"] if self._pod in fields.get("key", "") else ""
        if (place.module, place.function) in ENTRANCES:
            self._entered.set(place.module)
        return self._entered.get()

    def _is_told(self, frame: FrameType) -> bool:
        """Whether it is called because it has subscribed to something, which is none of the pod's own way."""
        above = frame.f_back
        while above is not None:
            if above.f_code.co_filename.startswith(self._telling):
                return True
            above = above.f_back
        return False

    def dump(self, file: Path) -> None:
        """Write what was noted as JSON; the file is there only when it is whole."""
        rooms = {room: [[*key, count] for key, count in calls.items()] for room, calls in self.rooms.items()}
        part = file.with_suffix(".part")
        part.write_text(json.dumps(rooms))
        part.rename(file)


def module_of(path: str) -> str:
    """The module of a file, both as from the root of the repository."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def function_of(qualified: str) -> str:
    """A function by its qualified name; empty for comprehensions, which are parts of a function."""
    if qualified.endswith(_COMPREHENSIONS):
        return ""
    return qualified.replace(_LOCALS, ".").replace("<lambda>", "lambda")


def first_instruction(code: CodeType) -> int:
    """Offset after which a call is no first one, but a coroutine or generator that goes on."""
    return next((each.offset for each in dis.get_instructions(code) if each.opname == "RESUME"), 0)


def read(file: Path) -> dict[str, Calls]:
    """What was dumped."""
    rooms: dict[str, list[tuple[str, str, int]]] = json.loads(file.read_text())
    return {room: {(module, function): count for module, function, count in calls} for room, calls in rooms.items()}
