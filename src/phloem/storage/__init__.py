"""Files: written whole or not at all; arrays under a seal."""
