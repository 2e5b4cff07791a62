"""Encodings of a run for front ends."""
