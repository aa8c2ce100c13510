"""The way out: which addresses may be reached, and clients that connect to no other.

addresses   the rules; pure
proxies     who is called by a proxy
transport   for httpx
pools       for urllib3
connector   for aiohttp
"""
