"""`pyflink.datastream.connectors`."""
