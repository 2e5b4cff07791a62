"""Tools for implementing providers: JSON checks, endpoints, error translation, strict schemas and stream decoding.

No module of this package is specific to one API.
"""
