"""Where to look: bootstrap trees, and the external programs that make them."""
