"""Facts about Python itself: what objects store, the text that code was compiled from, the garbage
collector and the installed packages.

Nothing here knows JAX or the rest of this package.
"""
