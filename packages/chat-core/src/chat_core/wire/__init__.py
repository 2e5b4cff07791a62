"""What every wire needs: shapes of JSON, where requests go, words of errors, schemas that servers enforce.

For authors of providers. Nothing here knows a wire.
"""
