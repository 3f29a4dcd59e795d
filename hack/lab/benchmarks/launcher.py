"""`python -m hack.lab.benchmarks.launcher FILE MODULE ...`: runs a module under the profiler, counting CPU time.

With wall-clock time (`python -m cProfile`), waiting for the network would hide the work.
"""

import cProfile
import runpy
import sys
import time


def main(path: str, module: str) -> None:
    """Run a module as a program. Writes the profile even if the program fails."""
    profile = cProfile.Profile(time.thread_time)
    try:
        profile.runcall(runpy.run_module, module, run_name="__main__", alter_sys=True)
    finally:
        profile.dump_stats(path)


if __name__ == "__main__":
    file, *sys.argv = sys.argv[1:]
    main(file, sys.argv[0])
