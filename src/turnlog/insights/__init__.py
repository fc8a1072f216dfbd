"""How the work went: one report, every figure defined and traceable to records."""
