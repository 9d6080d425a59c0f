"""Flink's own dashboard over our REST interface, in a browser: `make flink-ui`.

`drive.py` is what is called. Flink's page is taken out of its package from PyPI into `build/`, and is neither committed
nor shipped.
"""
