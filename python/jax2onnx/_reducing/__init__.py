"""Reduction of a program whose model is wrong to a few equations."""
