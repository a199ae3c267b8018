kernpack::library!(with = [conversions], without = [conversions]);

fn main() {}
