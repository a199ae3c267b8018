kernpack::library!(with = [libc]);

fn main() {}
