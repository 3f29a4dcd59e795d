"""Moves as users see them: what one would come to, what is under way, and waiting for its end."""
