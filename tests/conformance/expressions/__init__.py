"""Single expressions with right values: what functions, casts and comparisons give at their edges."""
