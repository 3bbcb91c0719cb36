"""Generations as files: staging, publication, links. Knows no key, judges no content."""
