"""What a run looks like while it works: a live panel on a terminal, lines elsewhere."""
