// What results are compared with: libm in the next wider precision. A file of its own, so that loops over it may use the vectors of libm.
#include <math.h>
#include <stdint.h>

#if DOUBLE
typedef double in_t;
typedef long double wide_t;
#define F(name) name##l
#else
typedef float in_t;
typedef double wide_t;
#define F(name) name
#endif

#define ONE(name, value)                                                            \
  void ref_##name(const in_t* restrict x, const in_t* restrict y, wide_t* restrict out, int64_t n) { \
    _Pragma("omp simd") for (int64_t i = 0; i < n; ++i) {                                              \
      wide_t a = x[i];                                                              \
      out[i] = value;                                                               \
    }                                                                               \
  }
#define TWO(name, value)                                                            \
  void ref_##name(const in_t* restrict x, const in_t* restrict y, wide_t* restrict out, int64_t n) { \
    _Pragma("omp simd") for (int64_t i = 0; i < n; ++i) {                                              \
      wide_t a = x[i], b = y[i];                                                    \
      out[i] = value;                                                               \
    }                                                                               \
  }

ONE(exp, F(exp)(a))
ONE(exp2, F(exp2)(a))
ONE(expm1, F(expm1)(a))
ONE(sigmoid, 1 / (1 + F(exp)(-a)))
ONE(log, F(log)(a))
ONE(log2, F(log2)(a))
ONE(log10, F(log10)(a))
ONE(log1p, F(log1p)(a))
ONE(tanh, F(tanh)(a))
ONE(sinh, F(sinh)(a))
ONE(cosh, F(cosh)(a))
ONE(erf, F(erf)(a))
ONE(sin, F(sin)(a))
ONE(cos, F(cos)(a))
ONE(tan, F(tan)(a))
ONE(asin, F(asin)(a))
ONE(acos, F(acos)(a))
ONE(atan, F(atan)(a))
ONE(rsqrt, 1 / F(sqrt)(a))
TWO(atan2, F(atan2)(a, b))
TWO(pow, F(pow)(a, b))
