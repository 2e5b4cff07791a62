"""Conformance suite for providers: scenarios, recorded responses (tapes) and capabilities of a provider."""
