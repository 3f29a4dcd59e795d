"""Copies of objects in targets: create, update, delete, and the reasons why one is missing."""
