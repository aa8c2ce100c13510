"""The typed IR: checked expressions, relations and queries as data, and questions about them."""
