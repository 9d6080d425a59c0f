"""Sources and sinks: their contracts, and the ones that come with flinkray."""
