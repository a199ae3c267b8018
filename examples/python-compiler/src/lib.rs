//! The compiler as one shared library: its objects, and the packed functions `kernpack.te.*`,
//! `kernpack.schedule.*`, `kernpack.pass.*`, `kernpack.ir.*`, `kernpack.arith.*`,
//! `kernpack.target.*` and `kernpack.graph.*`, for every language that loads it.

kernpack::library!(with = [kernpack_compiler, kernpack_graph, kernpack_nnvm]);
