"""Models in Flax NNX. Each function returns the module and example arguments."""
