"""``python -m turnlog.cli``: the command line where no ``turnlog`` was put on the PATH."""

from turnlog.cli import main

if __name__ == "__main__":
    main()
