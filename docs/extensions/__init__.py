"""What Sphinx needs beside its own to build these pages.

`site` is what `conf.py` loads. It draws on functions that know nothing of Sphinx, each tested for itself: `options` and
`commands` write the two references that are generated, `flowcharts` and `drawing` turn Mermaid into pictures,
`public_names` says where the reference has a name.
"""
