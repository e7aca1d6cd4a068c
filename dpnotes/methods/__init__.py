"""How the iterate moves."""
