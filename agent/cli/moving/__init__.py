"""Moves of pods for users: a preview, the moves under way, and waiting for completion."""
