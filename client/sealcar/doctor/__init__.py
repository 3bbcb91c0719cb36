"""What `sealcar doctor` looks at: the machine, its daemon, its store, and ONNX Runtime.

Nothing here imports the daemon, reads a key or changes anything that outlasts the look.
"""
