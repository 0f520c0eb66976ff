"""The console: pages in a browser for what people look at and do, over the public API alone."""
