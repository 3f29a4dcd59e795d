"""Warning events of delegates -> events of their proxy pods."""
