"""From a target and a variational family to a posterior: estimators, training, evaluation."""
