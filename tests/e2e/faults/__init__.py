"""Promises under real faults, one file each."""
