"""Files of the home: durable writes, locks, folders, source files and segments."""
