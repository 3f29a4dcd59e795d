"""What the command lines of these programs take."""

import argparse
import math
import os


def count(text: str) -> int:
    """A whole number from 1 on."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return value


def rate(text: str) -> float:
    """So many in a second, more than none."""
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError("more than 0")
    return value


def cores(text: str) -> float:
    """A part of the machine's processors, more than none."""
    value = float(text)
    if not 0 < value <= (os.cpu_count() or 1):
        raise argparse.ArgumentTypeError(f"more than 0 and at most {os.cpu_count()}, the processors of this machine")
    return value
