"""Authentication, rate limits, authorization, masking and destination ownership of calls, and their audit."""
