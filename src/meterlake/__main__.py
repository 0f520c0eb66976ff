"""`python -m meterlake`: the command line where its script is not on the path."""

from meterlake.cli import main

if __name__ == "__main__":
    main()
