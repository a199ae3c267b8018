//! A library that refers to `shapes` in its code, and to `colors` only here:

kernpack::library!(with = [colors]);

/// Copies a tensor to the device that `shapes` brings.
#[kernpack::packed_func]
fn onto_canvas(tensor: kernpack::Tensor) -> kernpack::Result<kernpack::Tensor> {
    tensor.to(shapes::canvas::CANVAS)
}

/// The number of times that this library's copy of `shapes` made the device.
#[kernpack::packed_func]
fn canvases() -> i64 {
    shapes::canvas::made()
}

/// Moves a point to the right.
#[kernpack::packed_func]
fn shift(point: kernpack::ObjRef<shapes::point::Point>, by: f64) -> kernpack::ObjRef<shapes::point::Point> {
    shapes::point::point(point.x + by, point.y)
}

/// A module with one function, which has the module's name and returns its number.
struct Numbered {
    name: String,
    number: i64,
}

impl kernpack::module::ModuleImpl for Numbered {
    fn kind(&self) -> &str {
        "left.numbered"
    }

    fn find_function(&self, name: &str) -> kernpack::Result<Option<kernpack::Function>> {
        let number = self.number;
        Ok((name == self.name).then(|| kernpack::Function::from_fn(move || number)))
    }
}

/// A module that this library makes.
#[kernpack::packed_func]
fn numbered(name: String, number: i64) -> kernpack::Module {
    kernpack::Module::new(Numbered { name, number })
}

/// The result of the function of this name that this library finds in a module or its imports.
#[kernpack::packed_func]
fn ask(module: kernpack::Module, name: String) -> kernpack::Result<Option<i64>> {
    module.find_function_in_tree(&name)?.map(|function| function.call_as(())).transpose()
}

/// The number of imports that this library sees.
#[kernpack::packed_func]
fn count_imports(module: kernpack::Module) -> i64 {
    module.imports().len() as i64
}
