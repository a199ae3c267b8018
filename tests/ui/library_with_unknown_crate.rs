kernpack::library!(with = [no_such_crate]);

fn main() {}
