"""Raw features of trees, their files, and learnable features by graph networks."""
