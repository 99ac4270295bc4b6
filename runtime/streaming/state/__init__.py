"""What window operators keep of a key group."""
