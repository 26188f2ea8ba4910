"""What was observed: alignments, site patterns, bundled examples."""
