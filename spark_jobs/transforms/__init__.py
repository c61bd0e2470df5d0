"""An example of a user's own transforms, each named in a definition as `module:function`."""
