"""Real servers for tests: each on free ports, in a directory of its own, started once and ended with the tests.

A machine that cannot have one leaves the tests that need it out, and says why; in CI that is a failure.
"""
