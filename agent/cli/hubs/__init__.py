"""Hub of other clusters: its bootstrap, requests and members."""
