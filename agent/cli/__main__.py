"""`python -m agent.cli`: the command without its console script."""

from agent.cli import main

main()
