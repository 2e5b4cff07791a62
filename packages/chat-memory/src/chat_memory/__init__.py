"""Facts, entities and recall."""
