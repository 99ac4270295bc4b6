"""Web page of running streams and statements: model, local server, metrics."""
