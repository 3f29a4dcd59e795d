"""Controllers of the agent, listed in `agent/rooms.py`. They share API objects and do not import each other."""
