"""Compact reference architectures with random weights.

`models.nnx.gpt.gpt` and the like return a callable and example arguments; sizes are arguments. The
same architectures exist in Flax NNX, Flax Linen, Equinox and dm-haiku.
"""
