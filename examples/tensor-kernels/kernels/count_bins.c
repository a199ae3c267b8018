#include <stdint.h>

/* Counts how often each of 256 values occurs: not an expression for each element, so plain C. */
void count_bins(const uint8_t* x, int32_t* counts, int64_t n) {
  for (int i = 0; i < 256; ++i) counts[i] = 0;
  for (int64_t i = 0; i < n; ++i) ++counts[x[i]];
}
