"""Target choice: whoever names targets on a Deployment or the like hears what is wrong with it."""
