"""Facts about plans over streams, for the binder, the rules and the lowering."""
