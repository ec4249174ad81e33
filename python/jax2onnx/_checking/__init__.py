"""Comparisons of a model with JAX or with another model, and the runtimes that they run in.

`allclose` compares outputs. `verify` compares every value and names the node that is wrong.
"""
