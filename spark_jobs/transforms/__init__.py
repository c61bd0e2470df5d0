"""Transforms: what becomes of a batch's records, each named in a definition as `module:function`."""
