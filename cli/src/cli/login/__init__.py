"""Logging in at an OpenID Connect provider, and what is kept of it. No cryptography is written here: the
provider's endpoints do the work, over TLS, and the gateway verifies what they give."""
