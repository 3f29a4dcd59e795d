"""The vocabulary of the API: names, kinds, schemas, conditions. Data and computation only, no I/O."""
