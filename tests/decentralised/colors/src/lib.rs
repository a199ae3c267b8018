//! A crate of functions and a type; it uses `kernpack` under another name.

ffi::library!(crate = ::ffi);

mod color {
    use ffi::{ObjRef, Object, packed_func};

    /// A color.
    #[derive(Object)]
    #[object(key = "colors.Color", crate = ::ffi)]
    #[repr(C)]
    struct Color {
        /// Red, green and blue, 8 bits each.
        pub rgb: i64,
    }

    /// Makes a color.
    #[packed_func(name = "colors.color", crate = ::ffi)]
    fn color(rgb: i64) -> ObjRef<Color> {
        ObjRef::new(Color { rgb })
    }
}

mod mix {
    /// Gives the color in the middle of two.
    #[ffi::packed_func(crate = ::ffi)]
    fn mix(a: i64, b: i64) -> i64 {
        [0, 8, 16].into_iter().map(|shift| (((a >> shift & 255) + (b >> shift & 255)) / 2) << shift).sum()
    }
}
