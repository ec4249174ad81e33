"""Models in Flax Linen. Each function returns a bound module and example arguments."""
