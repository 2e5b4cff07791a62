"""Tools for authors of providers: JSON checks, endpoints, error translation, strict schemas and stream decoding.

Nothing here is specific to one API.
"""
