kernpack::library!(name = "imagekit");

fn main() {}
