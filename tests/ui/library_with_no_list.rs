kernpack::library!(with = colors);

fn main() {}
