"""PyFlink's module names: a PyFlink DataStream program runs here after `pyflink` became `flinkray.pyflink`."""
