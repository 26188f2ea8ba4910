"""Every substitution model with parameters that it takes."""

GOOD = {
    "JC": {},
    "K80": {"kappa": (2.0,)},
    "F81": {"frequencies": (0.25,) * 4},
    "HKY": {"kappa": (2.0,), "frequencies": "empirical"},
    "TN93": {"kappa": (2.0, 3.0), "frequencies": (0.25,) * 4},
    "SYM": {"rates": (1.0,) * 6},
    "GTR": {"rates": (1.0,) * 6, "frequencies": (0.25,) * 4},
}
