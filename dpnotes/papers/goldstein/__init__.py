"""Kornowski, Liu and Talwar (ICML 2025): private Goldstein-stationary points of nonsmooth nonconvex objectives."""
