"""The command line. Importing it loads neither gRPC nor ONNX Runtime: commands load when called."""
