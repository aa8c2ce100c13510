"""Judges what is wrong with a dagger: findings, one condition at a time, by limits that it, its team and the
platform may say. Pure.
"""
