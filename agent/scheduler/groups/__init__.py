"""Groups: pods of one namespace that start together or not at all, each by mode `reserve`.

controller.py gathers and writes; decide.py, turns.py (whose turn it is) and restarts.py (a start that has lost one of
its members) decide: pure.
"""
