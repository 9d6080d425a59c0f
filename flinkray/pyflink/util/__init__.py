"""`pyflink.util`."""
