// A library that exports a function under the same name as another library.
int __tvm_ffi_add(void *self, const void *args, int num_args, void *result) {
  (void)self, (void)args, (void)num_args;
  *(int *)result = 1;
  ((long long *)result)[1] = 999;
  return 0;
}
