"""Argument types of the command lines."""

import argparse
import math
import os


def count(text: str) -> int:
    """Parse a whole number of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return value


def rate(text: str) -> float:
    """Parse a rate per second above 0."""
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError("more than 0")
    return value


def cores(text: str) -> float:
    """Parse a number of processors above 0, at most those of the machine."""
    value = float(text)
    if not 0 < value <= (os.cpu_count() or 1):
        raise argparse.ArgumentTypeError(f"more than 0 and at most {os.cpu_count()}, the processors of this machine")
    return value
