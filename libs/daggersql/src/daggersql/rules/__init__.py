"""Alert rules on the rows of a query: how they are checked, what they say, and how they are judged. Pure."""
