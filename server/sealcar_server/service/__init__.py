"""What the daemon does, one module a use case. Knows no protobuf and no sockets."""
