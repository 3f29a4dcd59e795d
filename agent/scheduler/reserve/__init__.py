"""Mode `reserve`: candidates in every target reserve nodes; the best is claimed and allowed, the others are deleted.

controller.py gathers and writes, decide.py decides (pure) in terms of steps.py; candidate_writer.py writes candidates
beside the steps, so that no pod waits for a slow target.
"""
