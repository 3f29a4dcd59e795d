"""`python -m hack.lab.trace.launcher FILE POD MODULE ...`: run a module, and write the calls for a pod to FILE."""

import runpy
import sys
from pathlib import Path

from hack.lab.sandbox.objects import REPOSITORY
from hack.lab.trace.recorder import Recorder


def main(file: Path, pod: str, module: str) -> None:
    """Run a module as a program. Writes the recorded calls even if the program fails."""
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
