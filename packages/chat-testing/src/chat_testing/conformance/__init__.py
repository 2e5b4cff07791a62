"""Conformance suite for providers: scenarios, the tapes that they play, and the claims of a provider."""
