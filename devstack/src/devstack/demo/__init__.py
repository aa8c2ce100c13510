"""The demo: a small city that is busy in real time, two daggers that watch it, and an independent recount."""
