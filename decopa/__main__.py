"""`python -m decopa`."""

from decopa.commands.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
