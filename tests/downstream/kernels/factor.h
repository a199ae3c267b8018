/* The factor of `scale`. */
#define FACTOR 3
