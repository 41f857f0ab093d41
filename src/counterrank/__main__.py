"""`python -m counterrank` is the command."""

from counterrank.cli import main

if __name__ == "__main__":
    main()
