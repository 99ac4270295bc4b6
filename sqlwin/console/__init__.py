"""Parts shared by the command line and the prompt."""
