"""Equations that JAX expands into other equations, one module per kind of equation.

The compiled half decides which equations are expanded, and calls `expand`.
"""
