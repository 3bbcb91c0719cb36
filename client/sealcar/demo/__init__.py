"""What `sealcar demo` runs: a daemon, two applications, a search for what must not be there."""
