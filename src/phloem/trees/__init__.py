"""What is unknown: topologies, tree files, splits, tree samples."""
