"""`pyflink.testing`."""
