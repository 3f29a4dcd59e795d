"""`python -m hack.lab.trace.launcher FILE POD MODULE ...`: run a module, and note which functions it calls for a
pod."""

import runpy
import sys
from pathlib import Path

from hack.lab.sandbox.objects import REPOSITORY
from hack.lab.trace.recorder import Recorder


def main(file: Path, pod: str, module: str) -> None:
    """Run a module as a program; what was noted is written however it ends."""
    recorder = Recorder(REPOSITORY, pod)
    sys.setprofile(recorder)
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        sys.setprofile(None)
        recorder.dump(file)


if __name__ == "__main__":
    path, name, *sys.argv = sys.argv[1:]
    main(Path(path), name, sys.argv[0])
