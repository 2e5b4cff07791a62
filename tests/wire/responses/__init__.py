"""The Responses API, compared with recorded traffic."""
