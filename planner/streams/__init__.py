"""Facts about plans over streams that the binder, the rules and lowering ask for."""
