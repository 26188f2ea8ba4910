"""Trees as arrays: parsing, canonical numbering, clades, generation."""
