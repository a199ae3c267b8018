; answer() -> int: 42. TVMFFIAny is { i32 type_index, i32 zero_padding, i64 value }; an int has the index 1.
define i32 @__tvm_ffi_answer(ptr %self, ptr %args, i32 %count, ptr %result) {
  store i32 1, ptr %result
  %value = getelementptr i8, ptr %result, i64 8
  store i64 42, ptr %value
  ret i32 0
}
