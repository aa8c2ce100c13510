"""From text to tree: tokens and grammar. Knows no types, no streams and no Spark."""
