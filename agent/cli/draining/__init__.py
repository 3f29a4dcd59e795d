"""Draining a target: the plan for the pods on its virtual node, and its execution."""
