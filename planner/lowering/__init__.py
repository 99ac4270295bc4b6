"""Lowering of physical plans to runtime steps.

Takes a physical plan and gives steps of `runtime.spec`. Nothing is optimised after this.
"""
