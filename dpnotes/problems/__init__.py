"""Problems to minimise, with their known constants: data sets, networks, quadratics, and users' own losses."""
