"""`python -m dynid`: the command line."""

from dynid.cli import main

main()
