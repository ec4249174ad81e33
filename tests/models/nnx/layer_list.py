"""A list of NNX modules, independent of the version of flax."""

from flax import nnx

# Flax before 0.12 takes plain lists and has no type for them.
LayerList = getattr(nnx, "List", list)
