//! The compiler as one shared library: its objects, and the packed functions `kernpack.te.*`, `kernpack.schedule.*`, `kernpack.pass.*`, `kernpack.ir.*`,
//! `kernpack.arith.*` and `kernpack.target.*`, for every language that loads it.

kernpack::library!(with = [kernpack_compiler]);
