"""p(Y, τ, q): substitution models, likelihood, priors."""
