"""Compact reference architectures with random weights. Each function returns a callable and example
arguments.
"""
