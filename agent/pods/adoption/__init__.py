"""Adopts chaperons that Admiralty's agent created for pods that Flotilla manages now."""
