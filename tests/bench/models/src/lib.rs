//! The models of `cargo xtask bench models`, beside onnxruntime: tests/bench/python/models.py.

kernpack::library!();
