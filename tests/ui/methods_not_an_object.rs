use kernpack::object_methods;

pub struct Counter {
    pub count: i64,
}

#[object_methods]
impl Counter {
    #[init]
    pub fn new(count: i64) -> Self {
        Self { count }
    }

    pub fn count(&self) -> i64 {
        self.count
    }
}

fn main() {}
