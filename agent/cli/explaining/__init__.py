"""What `flotilla explain` reads (`facts`), what it concludes (`explanation`), and how it is written (`rendering`)."""
