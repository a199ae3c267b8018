kernpack::library!();
kernpack::library!();

fn main() {}
