"""Physical plans to the steps that the runtime carries out."""
