"""Baselines, scores and the public evaluation protocols."""
