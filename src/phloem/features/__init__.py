"""What a tree looks like to a network: raw features, their files, and the way back."""
