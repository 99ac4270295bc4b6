"""Properties of plans over streams: time columns, watermarks, late rows, state, refusals.

Takes plans and the catalog and answers questions of the binder, the rules and the lowering. A query
that streams do not support is refused here, with its position.
"""
