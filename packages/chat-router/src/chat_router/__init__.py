"""Several models as one provider."""
