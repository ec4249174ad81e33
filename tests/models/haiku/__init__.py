"""Models in dm-haiku, transformed. Each function returns a callable and example arguments."""
