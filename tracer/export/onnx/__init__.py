"""ONNX files: a program goes in, a model that other runtimes read comes out."""
