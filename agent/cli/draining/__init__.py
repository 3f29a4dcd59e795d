"""Emptying a target: what has to go from its virtual node, and the way there."""
