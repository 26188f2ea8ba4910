"""Variational inference: particles and estimators, training, evaluation, diagnostics."""
