"""The attack on the code that stands: fuzz, kills, audits and mutants, by `make attack` and `make mutants`."""
