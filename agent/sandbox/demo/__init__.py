"""The demo: a Deployment and a Job of one cluster run in two others, step by step.

Each step is checked: it succeeds only when all API servers return the objects that it should lead to.
"""

from agent.sandbox.demo.run import Demo

__all__ = ["Demo"]
