"""Custody of the key-encryption keys: providers wrap and unwrap package keys, the ring caches them.

Nothing here knows what a package is: a key is wrapped for a context, and unwraps for no other.
"""
