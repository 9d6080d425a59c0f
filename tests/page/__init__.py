"""Our own page in a browser, by hand: what it is like for people who see or use it differently, and pictures of it."""
