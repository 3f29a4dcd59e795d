"""Errors of the sandbox."""


class SandboxError(Exception):
    """A request to the sandbox failed; the message contains the reason and a remedy."""


class NoNamespacesError(SandboxError):
    """Clusters share the loopback interface, so a fault cannot affect the network of only one."""


class BuildError(Exception):
    """A program cannot be built on this machine; the message contains the reason."""
