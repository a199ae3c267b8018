// A library with a broken import tree. TREE selects the symbol: absent, the bytes of BLOB, or of a
// wrong type.
#define AS_BYTES 1
#define AS_FUNCTION 2
#define AS_THREAD_LOCAL 3

#ifndef TREE
#define TREE 0
#endif

#if TREE == AS_BYTES
const unsigned char __tvm_ffi__library_bin[] = {BLOB};
#elif TREE == AS_FUNCTION
// Code that reads as a size beyond the segment.
__asm__(".text\n.globl __tvm_ffi__library_bin\n.type __tvm_ffi__library_bin, @function\n"
        "__tvm_ffi__library_bin: .fill 64, 1, 0x7f\n");
#elif TREE == AS_THREAD_LOCAL
__thread char __tvm_ffi__library_bin[16] = {1};
#endif

#ifdef CONTEXT
void *__tvm_ffi__library_ctx;
#endif

// Functions that show that the library itself works, and data with a function's name.
int __tvm_ffi_one(void *self, const void *args, int num_args, void *result) {
  (void)self, (void)args, (void)num_args;
  *(int *)result = 1;
  ((long long *)result)[1] = 1;
  return 0;
}

int __tvm_ffi_number = 42;
