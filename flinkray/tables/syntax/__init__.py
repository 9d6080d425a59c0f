"""The syntax of Flink SQL: text to a tree with places in the text, and back.

The tree is that of `names`, `expressions`, `queries` and `statements`; `parsing.parser` reads it, and `unparsing`
writes it. `words` has what Flink reserves. Reading is by recursive descent, within expressions by precedence.
"""
