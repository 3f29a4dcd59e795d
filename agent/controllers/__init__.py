"""The rooms of the agent; `agent/rooms.py` lists them all. They do not import each other: they meet on API objects."""
