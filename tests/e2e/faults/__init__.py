"""Promises that hold during real faults, one file per promise."""
