"""`export` and the model that it returns."""
