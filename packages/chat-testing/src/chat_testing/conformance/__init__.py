"""The kit that tells whether a provider is right: scenarios, the tapes that they play, and what a provider claims."""
