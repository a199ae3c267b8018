//! One item of each kind: functions, types, an enum, its own kind of module with the loader,
//! kernels, images.

#![allow(dead_code, reason = "this crate does not call what callers of the ABI call")]

kernpack::library!();

mod functions {
    //! Functions that no code refers to.

    use kernpack::{Error, Function, Result, packed_func};

    /// Adds two numbers.
    #[packed_func]
    fn add(a: i64, b: i64) -> i64 {
        a + b
    }

    /// Greets a person by name.
    #[packed_func(name = "profiles.greet")]
    fn greet(name: String) -> String {
        format!("hello {name}")
    }

    /// Calls back.
    #[packed_func]
    fn apply(function: Function, value: i64) -> Result<i64> {
        function.call_as((value,))
    }

    /// Always fails.
    #[packed_func]
    fn fail() -> Result<i64> {
        Err(Error::new("ValueError", "as asked"))
    }

    /// Panics, which is an error if panics unwind.
    #[packed_func]
    fn panics() -> i64 {
        panic!("as asked")
    }
}

mod types {
    //! Types that no code refers to.

    use kernpack::{ObjRef, Object, object_methods, packed_func};

    /// A point.
    #[derive(Object)]
    #[object(key = "profiles.Point")]
    #[repr(C)]
    struct Point {
        /// To the right.
        pub x: f64,
        /// Upwards.
        pub y: f64,
    }

    #[object_methods]
    impl Point {
        /// The distance from the origin.
        fn norm(&self) -> f64 {
            self.x.hypot(self.y)
        }
    }

    /// Makes a point.
    #[packed_func]
    fn point(x: f64, y: f64) -> ObjRef<Point> {
        ObjRef::new(Point { x, y })
    }
}

mod tables {
    //! Modules of a kind of this crate.

    use kernpack::module::ModuleImpl;
    use kernpack::{Bytes, Function, Module, Result, packed_func};

    struct Table(Bytes);

    impl ModuleImpl for Table {
        fn kind(&self) -> &str {
            "profiles.table"
        }

        fn find_function(&self, name: &str) -> Result<Option<Function>> {
            let bytes = self.0.clone();
            Ok((name == "bytes").then(|| Function::from_fn(move || bytes.clone())))
        }
    }

    /// Restores a table.
    #[packed_func(name = "ffi.Module.load_from_bytes.profiles.table")]
    fn load(bytes: Bytes) -> Module {
        Module::new(Table(bytes))
    }
}
