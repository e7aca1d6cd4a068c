"""Checked theory: symbols with units, claims with computed verdicts, calculators. It never imports torch."""
