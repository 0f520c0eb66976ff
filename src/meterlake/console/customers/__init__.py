"""Pages of customers, and the page that a customer sees."""
