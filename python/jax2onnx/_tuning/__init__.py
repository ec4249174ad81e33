"""Searches for the options of an export: each exports a model several times and compares."""
