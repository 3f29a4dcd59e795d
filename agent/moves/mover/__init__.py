"""Moves: pods whose target is not one that they may be in go to another, if possible without a lost request."""
