"""Gemini and Claude on Google Cloud."""
