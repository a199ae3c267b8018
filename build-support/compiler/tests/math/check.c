// Compares lowered functions with libm.
//
//   check NAME FIRST LAST STEP    every STEP-th bit pattern of FIRST .. LAST (functions of one float)
//   check NAME random SEED COUNT  random numbers: bit patterns, and numbers of usual size
//   check NAME time COUNT         nanoseconds per element, of the function and of libm, over numbers from 0.1 to 1
//
// Prints the largest error in units of the last place and where it is, and the number of wrong special values (NaN, infinity, sign of zero) with the first.
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if DOUBLE
typedef double real;
typedef uint64_t bits_t;
typedef long double wide;
#define DIGITS 52
#define MIN_EXPONENT (-1022)
#define MAX_EXPONENT 1023
#else
typedef float real;
typedef uint32_t bits_t;
typedef double wide;
#define DIGITS 23
#define MIN_EXPONENT (-126)
#define MAX_EXPONENT 127
#endif

#define X1(name)                                                    \
  void run_##name(const real* x, real* out, int64_t n);             \
  void ref_##name(const real* x, const real* y, wide* out, int64_t n); \
  static void call_##name(const real* x, const real* y, real* out, int64_t n) { run_##name(x, out, n); }
#define X2(name)                                                    \
  void run_##name(const real* x, const real* y, real* out, int64_t n); \
  void ref_##name(const real* x, const real* y, wide* out, int64_t n); \
  static void call_##name(const real* x, const real* y, real* out, int64_t n) { run_##name(x, y, out, n); }
FUNCTIONS
#undef X1
#undef X2

typedef struct {
  const char* name;
  int arity;
  void (*call)(const real*, const real*, real*, int64_t);
  void (*ref)(const real*, const real*, wide*, int64_t);
} function_t;

#define X1(name) {#name, 1, call_##name, ref_##name},
#define X2(name) {#name, 2, call_##name, ref_##name},
static const function_t functions[] = {FUNCTIONS};

enum { BLOCK = 4096 };
static real x[BLOCK], y[BLOCK], out[BLOCK];
static wide expected[BLOCK];
static double worst;
static real worst_x, worst_y, wrong_x, wrong_y, wrong_out;
static int64_t wrong;

static void note_wrong(int i) {
  if (wrong++ == 0) wrong_x = x[i], wrong_y = y[i], wrong_out = out[i];
}

static void compare_one(int i);

#if DOUBLE
static void compare(int n) {
  for (int i = 0; i < n; ++i) compare_one(i);
}
#else
// A loop of vectors for what is not special.
static void compare(int n) {
  static double ulps[BLOCK];
  double largest = 0, smallest = 0;
  for (int i = 0; i < n; ++i) {
    double e = expected[i];
    float o = out[i], rounded = (float)e;
    uint64_t bits;
    uint32_t own, right;
    memcpy(&bits, &e, 8);
    memcpy(&own, &o, 4);
    memcpy(&right, &rounded, 4);
    int same = (own == right) | ((e != e) & (o != o));
    int64_t exponent = (int64_t)(bits >> 52 & 0x7ff);
    exponent = exponent < 1023 + MIN_EXPONENT ? 1023 + MIN_EXPONENT : exponent;
    exponent = exponent > 1023 + MAX_EXPONENT ? 1023 + MAX_EXPONENT : exponent;
    bits = (uint64_t)(2 * 1023 + DIGITS - exponent) << 52;
    double scale;
    memcpy(&scale, &bits, 8);
    int plain = (e != 0) & (o != 0) & (fabs(e) < 0x1p128) & (fabsf(o) < INFINITY);
    double error = fabs(e - (double)o) * scale;
    ulps[i] = plain ? error : same ? 0 : -1;
  }
  for (int i = 0; i < n; ++i) {
    largest = ulps[i] > largest ? ulps[i] : largest;
    smallest = ulps[i] < smallest ? ulps[i] : smallest;
  }
  if (largest <= worst && smallest >= 0) return;
  for (int i = 0; i < n; ++i) {
    if (ulps[i] < 0 || ulps[i] > worst) compare_one(i);
  }
}
#endif

static void compare_one(int i) {
  const wide limit = ldexp(1, MAX_EXPONENT) * (wide)2;
  wide e = expected[i];
  real o = out[i];
  if (e != e || o != o) {
    if ((e != e) != (o != o)) note_wrong(i);
    return;
  }
  if (!signbit(e) != !signbit(o) && (o == 0 || e == 0 || isinf(o))) {
    note_wrong(i);
    return;
  }
  // Infinity is one digit above the largest number; what libm has beyond it is as well.
  if (isinf(e) && !isinf(o)) {
    note_wrong(i);
    return;
  }
  wide a = e < 0 ? -e : e, b = o < 0 ? -(wide)o : (wide)o;
  if (a > limit) a = limit;
  if (isinf(o)) b = limit;
  if ((e < 0) != (o < 0)) b = -b;
  int exponent;
#if DOUBLE
  frexpl(a, &exponent);
#else
  uint64_t bits;
  memcpy(&bits, &a, 8);
  exponent = (int)(bits >> 52) - 1022;
#endif
  exponent -= 1;
  if (exponent < MIN_EXPONENT || a == 0) exponent = MIN_EXPONENT;
  if (exponent > MAX_EXPONENT) exponent = MAX_EXPONENT;
#if DOUBLE
  double ulps = (double)ldexpl(a - b, DIGITS - exponent);
#else
  uint64_t scale_bits = (uint64_t)(1023 + DIGITS - exponent) << 52;
  double scale;
  memcpy(&scale, &scale_bits, 8);
  double ulps = (a - b) * scale;
#endif
  ulps = fabs(ulps);
  if (ulps > worst) worst = ulps, worst_x = x[i], worst_y = y[i];
}

static uint64_t state;
static uint64_t next(void) {
  // splitmix64
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static real pattern(bits_t bits) {
  real value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static const double special[] = {0,    1,   2,    3,   0.5,     1.5,     2.5, 10,     1e-30,     1e30,      0x1p-149, 0x1.fffffep127, 16777215, 16777216,
                                 1e-5, 100, 1e10, 0.1, 0x1p-1074, 0x1.fffffffffffffp1023, 4503599627370497, 9007199254740991, 9007199254740994};
enum { SPECIALS = sizeof special / sizeof *special };

static real number(int kind) {
  uint64_t bits = next();
  real sign = bits & 1 ? -1 : 1;
  double fraction = (double)(bits >> 11) * 0x1p-53;
  switch (kind) {
    case 0: return pattern((bits_t)bits);
    case 1: return sign * (real)(fraction * 4);
    case 2: return sign * (real)(fraction * 100);
    case 3: return sign * (real)exp2(fraction * 40 - 20);
    case 4: return (real)(1 + (fraction - 0.5) * exp2(-(double)(next() % 40)));
    case 5: return sign * (real)(int)(fraction * 20);
    case 6: return sign * (real)exp2(fraction * (MAX_EXPONENT + 40.0) - 40);
    default: {
      uint64_t which = next() % (SPECIALS + 2);
      return sign * (which == SPECIALS ? (real)INFINITY : which > SPECIALS ? (real)NAN : (real)special[which]);
    }
  }
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

static volatile double sink;

static void time_it(const function_t* f, int64_t count) {
  for (int i = 0; i < BLOCK; ++i) x[i] = (real)(0.1 + 0.9 * i / BLOCK), y[i] = (real)(1 + 0.5 * i / BLOCK);
  double own = 1e9, reference = 1e9;
  for (int round = 0; round < 12; ++round) {
    double start = seconds();
    for (int64_t k = 0; k < count; ++k) f->call(x, y, out, BLOCK);
    double middle = seconds();
    sink = out[7];
    if (middle - start < own) own = middle - start;
  }
#define LIBM(which, expression) \
  if (strcmp(f->name, #which) == 0) for (int i = 0; i < BLOCK; ++i) out[i] = expression;
#if DOUBLE
#define S(name) name
#else
#define S(name) name##f
#endif
  for (int round = 0; round < 6; ++round) {
    double start = seconds();
    for (int64_t k = 0; k < count / 8 + 1; ++k) {
      LIBM(exp, S(exp)(x[i])) LIBM(exp2, S(exp2)(x[i])) LIBM(expm1, S(expm1)(x[i])) LIBM(sigmoid, 1 / (1 + S(exp)(-x[i])))
      LIBM(log, S(log)(x[i])) LIBM(log2, S(log2)(x[i])) LIBM(log10, S(log10)(x[i])) LIBM(log1p, S(log1p)(x[i]))
      LIBM(tanh, S(tanh)(x[i])) LIBM(sinh, S(sinh)(x[i])) LIBM(cosh, S(cosh)(x[i])) LIBM(erf, S(erf)(x[i]))
      LIBM(sin, S(sin)(x[i])) LIBM(cos, S(cos)(x[i])) LIBM(tan, S(tan)(x[i])) LIBM(asin, S(asin)(x[i]))
      LIBM(acos, S(acos)(x[i])) LIBM(atan, S(atan)(x[i])) LIBM(rsqrt, 1 / S(sqrt)(x[i]))
      LIBM(atan2, S(atan2)(x[i], y[i])) LIBM(pow, S(pow)(x[i], y[i]))
      sink = out[k % BLOCK];
    }
    double taken = seconds() - start;
    if (taken < reference) reference = taken;
  }
  printf("%s %.4f %.4f\n", f->name, own * 1e9 / ((double)count * BLOCK), reference * 1e9 / ((double)(count / 8 + 1) * BLOCK));
}

int main(int argc, char** argv) {
  const function_t* f = NULL;
  for (size_t i = 0; i < sizeof functions / sizeof *functions; ++i) {
    if (argc > 1 && strcmp(functions[i].name, argv[1]) == 0) f = &functions[i];
  }
  if (f == NULL || argc < 4) return 2;
  if (strcmp(argv[2], "time") == 0) {
    time_it(f, atoll(argv[3]));
    return 0;
  }
  if (strcmp(argv[2], "random") == 0) {
    state = strtoull(argv[3], NULL, 10);
    int64_t count = atoll(argv[4]);
    for (int64_t done = 0; done < count; done += BLOCK) {
      for (int i = 0; i < BLOCK; ++i) {
        uint64_t kinds = next();
        x[i] = number(kinds % 8);
        y[i] = number((f->arity == 2 && kinds >> 8 & 1) ? kinds % 8 : (kinds >> 16) % 8);
      }
      f->call(x, y, out, BLOCK);
      f->ref(x, y, expected, BLOCK);
      compare(BLOCK);
    }
  } else {
    uint64_t first = strtoull(argv[2], NULL, 10), last = strtoull(argv[3], NULL, 10), step = strtoull(argv[4], NULL, 10);
    while (first < last) {
      int n = 0;
      for (; n < BLOCK && first < last; ++n, first += step) x[n] = pattern((bits_t)first);
      for (int i = n; i < BLOCK; ++i) x[i] = 0;
      f->call(x, y, out, BLOCK);
      f->ref(x, y, expected, BLOCK);
      compare(n);
    }
  }
  printf("%s %.3f %a %a %" PRId64 " %a %a %a\n", f->name, worst, worst_x, worst_y, wrong, wrong_x, wrong_y, wrong_out);
  return 0;
}
