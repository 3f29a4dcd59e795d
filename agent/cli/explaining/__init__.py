"""What `flotilla explain` reads (`facts`), what it concludes (`account`), and how it is written (`written`)."""
