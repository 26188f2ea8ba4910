"""What a run looks like while it goes: a live panel on a terminal, lines elsewhere."""
