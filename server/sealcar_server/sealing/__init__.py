"""How sealcar keeps data at rest: streams, key derivation, the seal record (docs/format.md).

Bytes and values only: nothing here knows a store, a socket or a key provider.
"""
