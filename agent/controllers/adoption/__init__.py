"""Make chaperons ours that the agent before us has made of pods that are ours by now."""
