"""What the sandbox tells its user when it cannot go on."""


class SandboxError(Exception):
    """The sandbox cannot do what it was asked; the message says what is wrong and what to do about it."""
