"""What tests share: comparisons with JAX, browsers, runtimes, models of their own."""
