"""What is fine for Spark and is not for those who read the rows: warnings and objections over the IR."""
