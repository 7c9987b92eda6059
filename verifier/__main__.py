"""``python -m verifier``: the same commands as ``kq``."""

from verifier.cli import main

if __name__ == "__main__":
    main()
