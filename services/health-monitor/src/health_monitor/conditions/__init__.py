"""Judges what is wrong: findings about daggers, teams and principals, one condition at a time. Pure."""
