"""Models in Equinox over a batch. Each function returns a callable and example arguments."""
