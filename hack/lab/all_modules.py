"""Import of all modules of the product, for tools that read all metrics."""

import importlib
import pkgutil

import agent
import webhook


def import_all_modules() -> None:
    """Import every module of agent and webhook, except those of the command.

    The agent imports a controller that is off by default only if its setting is on.
    """
    for package in (agent, webhook):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.startswith("agent.cli.") and not module.name.endswith(".__main__"):
                importlib.import_module(module.name)
