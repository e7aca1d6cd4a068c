"""`python -m dpnotes` is the command line."""

from dpnotes.cli.main import main

if __name__ == "__main__":
    main()
