"""`python -m phloem`: the same as `phloem`."""

from phloem.cli.main import main

main()
