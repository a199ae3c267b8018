//! The RPC client as one shared library: the packed functions `kernpack.rpc.*` for every language
//! that loads it.

kernpack::library!(with = [kernpack_rpc]);
