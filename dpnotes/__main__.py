"""`python -m dpnotes` is the command line."""

from dpnotes.cli import main

if __name__ == "__main__":
    main()
