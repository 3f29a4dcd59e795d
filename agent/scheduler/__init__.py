"""The proxy scheduler: the loop around `agent.scheduling` that claims, tries and binds."""
