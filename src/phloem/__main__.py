"""The `phloem` program, and `python -m phloem`: importing the commands takes long enough for a Ctrl-C."""

import os

try:
    from phloem.cli.main import main
except KeyboardInterrupt:
    try:
        os.write(2, b"phloem: interrupted.\n")
    finally:
        os._exit(130)

if __name__ == "__main__":
    main()
