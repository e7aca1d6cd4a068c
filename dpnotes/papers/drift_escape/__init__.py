"""Second-order stationary points by drift-based escape: an anonymous submission to ICLR.

The paper is "Private Stochastic Optimization for Achieving Second-Order Stationary Points"; a later version is Tao et
al., "Second-Order Convergence in Private Stochastic Non-Convex Optimization", arXiv:2505.15647.
"""
