"""Models of ONNX by the interface that ONNX defines for all that run them: `import kernpack_onnx.backend as backend`."""
