"""A store in S3-compatible object storage. Knows objects and their names, no key, no content."""
