"""Theory that is checked: symbols with units, claims with computed verdicts, calculators. Never torch."""
