"""Recorder for `sys.setprofile`: counts calls for one pod of functions in this repository.

Coroutines interleave, so the log context decides whether a call belongs to the pod. The runtime sets it around
each reconciliation, tasks inherit it, and it contains the controller's name and the key.
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
"""Infrastructure packages, whose calls are not recorded."""
ENTRANCES = (("webhook.handlers", "_served.serve"), ("agent.extender.server", "Extender._bind"))
"""Functions that handle requests. All later calls in their tasks count: there is only one pod."""
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
_LOCALS = ".<locals>."


class Place(NamedTuple):
    """A function of this repository: module, qualified name, and offset of the first instruction of its body."""

    module: str
    function: str
    start: int


Calls = dict[tuple[str, str], int]
"""Number of calls by module and function, in the order of the first calls."""


class Recorder:
    """Records calls. `controllers` contains them by the name of their controller or request handler."""

    def __init__(self, repository: Path, pod: str) -> None:
        self._root = f"{repository}/"
        self._telling = (f"{repository}/agent/kube/", f"{repository}/agent/base/listeners.py")
        self._pod = pod
        self._places: dict[CodeType, Place | None] = {}
        self._entered: ContextVar[str] = ContextVar("entered", default="")
        self.controllers: dict[str, Calls] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Handle one event of the interpreter."""
        if event != "call":
            return
        code = frame.f_code
        try:
            place = self._places[code]
        except KeyError:
            place = self._places[code] = self._place(code)
        if place is not None and frame.f_lasti <= place.start:
            controller = self._controller(place)
            if controller and not self._is_told(frame):
                calls = self.controllers.setdefault(controller, {})
                key = (place.module, place.function)
                calls[key] = calls.get(key, 0) + 1

    def _place(self, code: CodeType) -> Place | None:
        ours = code.co_filename.startswith((f"{self._root}agent/", f"{self._root}webhook/"))
        if not ours or not code.co_flags & inspect.CO_OPTIMIZED:
            # Code outside of this repository, or the body of a class or module, which runs on import.
            return None
        module = module_of(code.co_filename.removeprefix(self._root))
        if module.startswith(tuple(f"{each}." for each in UNCOUNTED)) or module in UNCOUNTED:
            return None
        function = function_of(code.co_qualname)
        return Place(module, function, first_instruction(code)) if function else None

    def _controller(self, place: Place) -> str:
        fields = log_context.get()
        if fields is not None and "controller" in fields:
            return fields["controller"] if self._pod in fields.get("key", "") else ""
        if (place.module, place.function) in ENTRANCES:
            self._entered.set(place.module)
        return self._entered.get()

    def _is_told(self, frame: FrameType) -> bool:
        """Return whether an informer's subscription causes the call: such calls do not belong to the pod's
        processing.
        """
        above = frame.f_back
        while above is not None:
            if above.f_code.co_filename.startswith(self._telling):
                return True
            above = above.f_back
        return False

    def dump(self, file: Path) -> None:
        """Write the calls as JSON. Renames the complete file into place."""
        controllers = {
            controller: [[*key, count] for key, count in calls.items()]
            for controller, calls in self.controllers.items()
        }
        part = file.with_suffix(".part")
        part.write_text(json.dumps(controllers))
        part.rename(file)


def module_of(path: str) -> str:
    """Return the module of a file; the path is relative to the root of the repository."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def function_of(qualified: str) -> str:
    """Return a function's name from its qualified name; empty for comprehensions, which are parts of a function."""
    if qualified.endswith(_COMPREHENSIONS):
        return ""
    return qualified.replace(_LOCALS, ".").replace("<lambda>", "lambda")


def first_instruction(code: CodeType) -> int:
    """Return the offset of RESUME; a later offset means that a coroutine or generator resumes."""
    return next((each.offset for each in dis.get_instructions(code) if each.opname == "RESUME"), 0)


def read(file: Path) -> dict[str, Calls]:
    """Return the calls in a file that `dump` wrote."""
    controllers: dict[str, list[tuple[str, str, int]]] = json.loads(file.read_text())
    return {
        controller: {(module, function): count for module, function, count in calls}
        for controller, calls in controllers.items()
    }
