"""Measurements of the points that were reached: curvature and certificates of stationarity."""
