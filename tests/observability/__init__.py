"""Tests of the OpenTelemetry data of a chat over real sockets and from several processes."""
