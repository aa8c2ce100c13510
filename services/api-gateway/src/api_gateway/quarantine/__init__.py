"""Records that were set aside: their topic, its index in the database, and the service in front."""
