"""Whole applications as P2CODE's scheduler takes them: what is asked, what belongs together, what is told. Pure."""
