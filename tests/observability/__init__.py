"""What a whole chat tells OpenTelemetry, over real sockets and from several processes."""
