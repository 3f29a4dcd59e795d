"""Checks of `flotilla doctor` for operators' mistakes: input is read once (`gather`), then judged by pure functions."""
