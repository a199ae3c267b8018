// Counts allocations: preloaded before the C library (glibc).
#include <stddef.h>

extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* old, size_t size);

long kernpack_test_allocations;

static void count(void) { __atomic_add_fetch(&kernpack_test_allocations, 1, __ATOMIC_RELAXED); }

void* malloc(size_t size) {
  count();
  return __libc_malloc(size);
}

void* calloc(size_t items, size_t size) {
  count();
  return __libc_calloc(items, size);
}

void* realloc(void* old, size_t size) {
  count();
  return __libc_realloc(old, size);
}
