"""Web page of running streams and statements: model, local server, metrics.

Takes the state of a session and serves it as a page, as JSON and as Prometheus metrics. Changes
nothing in the session.
"""
