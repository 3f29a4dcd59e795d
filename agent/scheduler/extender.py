"""`python -m agent.scheduler.extender`, for Deployments of an earlier chart: the bind extender is `agent.extender`."""

import runpy

if __name__ == "__main__":
    runpy.run_module("agent.extender", run_name="__main__", alter_sys=True)
