"""Promises that hold under real faults, a file for each promise."""
