"""What a run found, for people to read: trees, tables and pages."""
