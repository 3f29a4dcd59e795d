"""Trace of the functions that run for one pod, in agents and webhook, without support in their code."""
