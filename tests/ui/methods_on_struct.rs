use kernpack::object_methods;

#[object_methods]
pub struct Counter {
    pub count: i64,
}

fn main() {}
