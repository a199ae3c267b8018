use kernpack::packed_func;

#[packed_func(name = "_library_bin")]
fn one() {}

#[packed_func(name = "_doc_add")]
fn two() {}

#[packed_func]
fn _metadata_add() {}

fn main() {}
