"""Tests that kill real processes at every step."""
