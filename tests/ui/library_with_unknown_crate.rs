kernpack::library!(with = [shapez]);

fn main() {}
