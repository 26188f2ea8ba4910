"""The paper's benchmark: tables and figures on DS1–DS8, ours beside the published."""
