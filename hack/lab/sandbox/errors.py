"""Errors of the sandbox."""


class SandboxError(Exception):
    """The sandbox cannot do what it was asked; the message says what is wrong and what to do about it."""


class NoNamespacesError(SandboxError):
    """Clusters share the loopback interface, so nothing can be done to the network of one alone."""


class BuildError(Exception):
    """A program cannot be built on this machine; the message says why."""
