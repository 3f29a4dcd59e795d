"""The demo: a Deployment and a Job of one cluster run in two others, step by step, each step checked on the clusters.

Everything shown is read from the API servers anew; a step counts only once they say that it came true.
"""

from agent.sandbox.demo.run import Demo

__all__ = ["Demo"]
