"""From IR to Spark: the SQL, what must be read, how groups are added up before, the identity of the state."""
