"""Physical plans over streams to steps."""
