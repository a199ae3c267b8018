/* Nothing: a library to link to. */
typedef int nothing;
