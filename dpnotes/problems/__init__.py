"""What is minimised, with its known constants: data sets, networks, quadratics, and your own losses."""
