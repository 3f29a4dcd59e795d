"""Moves misplaced pods to other targets, if possible without a lost request."""
