//! LLVM linking.
