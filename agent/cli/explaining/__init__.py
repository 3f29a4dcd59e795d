"""Input of `flotilla explain` (`facts`), its conclusions (`explanation`), and their output (`rendering`)."""
