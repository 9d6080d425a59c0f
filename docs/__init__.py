"""The documentation: pages in Markdown, the API reference in reStructuredText, and what builds them (`make docs`)."""
