"""Mode `ranked`: a pod is claimed for the best target; one that cannot take it is remembered, and the next one claimed.

controller.py gathers and writes, decide.py decides (pure).
"""
