"""Mode `reserve`: candidates in every target reserve nodes; the best is claimed and allowed, the others are deleted.

controller.py reads and writes; decide.py decides (pure) and returns steps of steps.py. candidate_writer.py writes
candidates concurrently, so that no pod waits for a slow target.
"""
