mod shapes {}

kernpack::library!(with = [shapes]);

fn main() {}
