"""The attack on the code that stands: leaking code, kills, audits and mutants, by `make attack` and `make mutants`."""
