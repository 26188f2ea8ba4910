"""Tree probabilities by energy-based models, trained by noise contrastive estimation."""
