"""Caches of objects that several controllers read: chaperons, proxy pods, owners, Services, fences."""
