"""Conditions of targets that lose their pods: unreachable, retiring, and over their limits."""
