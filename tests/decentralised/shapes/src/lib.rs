//! Types and functions that are part of two libraries, in a separate module of each.

kernpack::library!();

pub mod point {
    //! Items that the libraries' code refers to.

    use kernpack::{ObjRef, Object, packed_func};

    /// A point.
    #[derive(Object)]
    #[object(key = "shapes.Point")]
    #[repr(C)]
    pub struct Point {
        /// To the right.
        pub x: f64,
        /// Upwards.
        pub y: f64,
    }

    /// Makes a point.
    #[packed_func(name = "shapes.point")]
    pub fn point(x: f64, y: f64) -> ObjRef<Point> {
        ObjRef::new(Point { x, y })
    }
}

pub mod canvas;

mod circle {
    //! Items that no code refers to.

    use super::point::Point;
    use kernpack::{ObjRef, Object, packed_func};

    /// A circle.
    #[derive(Object)]
    #[object(key = "shapes.Circle")]
    #[repr(C)]
    struct Circle {
        /// The center.
        pub center: ObjRef<Point>,
        /// Half of the width.
        pub radius: f64,
    }

    /// Makes a circle.
    #[packed_func(name = "shapes.circle")]
    fn circle(center: ObjRef<Point>, radius: f64) -> ObjRef<Circle> {
        ObjRef::new(Circle { center, radius })
    }

    mod area {
        /// Gives a circle's area.
        #[kernpack::packed_func(name = "shapes.area")]
        fn area(circle: kernpack::ObjRef<super::Circle>) -> f64 {
            circle.radius * circle.radius * core::f64::consts::PI
        }
    }
}
