"""What was reached: curvature and certificates of stationarity."""
