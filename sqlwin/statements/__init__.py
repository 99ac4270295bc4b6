"""Scripts to statements: what each says, before anything runs."""
