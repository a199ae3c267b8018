//! Methods that `#[object_methods]` accepts.
#![deny(warnings)]
#![allow(clippy::needless_arbitrary_self_type)]

use std::cmp::Ordering;

use kernpack::{Error, Function, ObjRef, object_methods};

mod inner {
    #[derive(kernpack::Object)]
    #[object(key = "imagekit.Counter")]
    #[repr(C)]
    pub struct Counter {
        pub count: i64,
    }

    impl Counter {
        pub const START: i64 = 3;
    }
}

#[object_methods(crate = ::kernpack)]
impl inner::Counter {
    #[type_attr(name = "imagekit.limit")]
    const LIMIT: i64 = Self::START + 7;

    #[init]
    fn make(
        #[default(Self::START)] count: i64,
        #[default(None)] other: Option<ObjRef<Self>>,
    ) -> Result<ObjRef<Self>, Error> {
        Ok(ObjRef::new(Self { count: count + other.map_or(Self::LIMIT, |other| other.count) }))
    }

    /// Shadows what the generated code might use.
    pub fn args<'a>(&'a self, args: &'a str, given: i64) -> &'a str {
        if given > self.count { args } else { "" }
    }

    pub fn r#match(self: &Self, r#in: &ObjRef<inner::Counter>) -> Option<Self> {
        (self.count == r#in.count).then_some(Self { count: 1 })
    }

    #[cfg(unix)]
    pub fn name(this: &ObjRef<Self>) -> ObjRef<Self> {
        this.clone()
    }

    #[cfg(not(unix))]
    pub fn name(this: &ObjRef<Self>) -> DoesNotExist {
        this.clone()
    }

    #[operator(repr)]
    fn repr(&self, print: Function) -> kernpack::Result<String> {
        print.call_as((self.count,))
    }

    #[operator(compare)]
    fn order(this: &ObjRef<Self>, other: &Self) -> Ordering {
        this.count.cmp(&other.count)
    }

    #[deprecated]
    pub fn old(&self) {}

    #[skip]
    pub fn into_count(self) -> i64 {
        self.count
    }

    #[expect(dead_code)]
    fn unused(&mut self) {
        self.count += 1;
    }
}

fn main() {
    let counter = ObjRef::new(inner::Counter { count: 3 });
    let init = Function::from_fn(|count: i64| inner::Counter::make(count, None));
    assert_eq!(init.call_as::<ObjRef<inner::Counter>>((1,)).unwrap().count, 11);
    assert_eq!(counter.args("x", 4), "x");
    assert!(inner::Counter::name(&counter).ptr_eq(&counter));
    assert!(counter.r#match(&counter).is_some());
    assert_eq!(inner::Counter { count: 2 }.into_count(), 2);
    assert_eq!(kernpack::load_problems(), Vec::<String>::new());
}
