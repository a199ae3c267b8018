use kernpack::{Object, object_methods};

#[derive(Object)]
#[object(key = "imagekit.Counter")]
#[repr(C)]
pub struct Counter {
    pub count: i64,
}

#[object_methods]
impl Counter {
    #[operator(lt)]
    pub fn less(&self, other: &Self) -> bool {
        self.count < other.count
    }

    #[operator(compare)]
    pub fn order(&self, other: &Self) -> std::cmp::Ordering {
        self.count.cmp(&other.count)
    }
}

fn main() {}
