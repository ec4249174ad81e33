"""From a callable to a jaxpr: its arguments, the parameters and modules that it holds, and the
trace itself.

Modules here use `_frameworks` and `_python`, and no other package.
"""
