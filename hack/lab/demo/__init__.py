"""The demo: a Deployment and a Job of one cluster run in two others, step by step.

Each step ends with a check that reads the result from all API servers.
"""

from hack.lab.demo.run import Demo

__all__ = ["Demo"]
