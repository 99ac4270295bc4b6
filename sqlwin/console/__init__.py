"""What the command line and the prompt share."""
