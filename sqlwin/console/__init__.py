"""Code shared by the command line and the prompt: scripts, formats, signals, failures."""
