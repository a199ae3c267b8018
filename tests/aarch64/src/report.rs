//! The results of `libimagekit.so` for one picture, as text: the same on every machine, to the last
//! bit of each number.

use std::fmt::Write as _;
use std::path::Path;

use kernpack::module::ModuleImpl;
use kernpack::{Any, Array, Bytes, Error, Function, Map, Module, ObjRef, Object, Result, Tensor};

/// Height and width of the picture; not multiples of a vector's size.
const SIZE: [i64; 2] = [37, 53];

/// Fields of `imagekit.Statistics`, as this program knows them.
#[derive(Object)]
#[object(key = "imagekit.Statistics")]
#[repr(C)]
pub(crate) struct Statistics {
    /// Number of pixels.
    pub total: i64,
    /// Mean gray level.
    pub mean: f64,
    /// Least gray level.
    pub min: f64,
    /// Greatest gray level.
    pub max: f64,
}

/// A module in Rust, for the library's import tree.
struct Doubles;

impl ModuleImpl for Doubles {
    fn kind(&self) -> &str {
        "test.doubles"
    }

    fn find_function(&self, name: &str) -> Result<Option<Function>> {
        Ok((name == "twice").then(|| Function::from_fn(|x: i64| 2 * x)))
    }
}

/// A picture with gradients that contain every byte.
fn picture() -> Result<Tensor> {
    let [height, width] = SIZE;
    let pixels = (0..height * width * 3).map(|i| ((i * i * 7 + i * 13) >> 3) as u8).collect();
    Tensor::from_vec(pixels, &[height, width, 3])
}

/// A hash of the bits of all elements (FNV-1a), and two of the elements.
fn elements(tensor: &Tensor) -> Result<String> {
    let pixels = tensor.view::<f32>()?.to_vec();
    let hash = pixels
        .iter()
        .flat_map(|pixel| pixel.to_bits().to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3_u64));
    let [first, last] = [pixels.first(), pixels.last()].map(|pixel| pixel.copied().unwrap_or(f32::NAN));
    Ok(format!("{:?} {hash:016x} {first} .. {last}", tensor.shape()))
}

fn message(result: Result<Any>) -> String {
    result.map_or_else(|error: Error| error.to_string(), |_| "no error".to_owned())
}

/// Calls all functions, and writes down the results.
///
/// # Errors
/// The error of a call that must not fail.
pub(crate) fn report(library: &Path) -> Result<String> {
    let kit = Module::load(library)?;
    let mut out = String::new();
    let mut line = |name: &str, text: &str| {
        // Writing to a String does not fail.
        let _ = writeln!(out, "{name}: {text}");
    };
    let mut names = kit.function_names();
    names.sort();
    line("functions", &names.join(" "));

    let rgb = picture()?;
    let gray: Tensor = kit.function("imagekit.to_gray")?.call_as((&rgb,))?;
    line("to_gray (Rust)", &elements(&gray)?);
    let smooth = Tensor::zeros::<f32>(gray.shape())?;
    kit.function("blur")?.call((&gray, &smooth, 2))?;
    line("blur (C)", &elements(&smooth)?);
    let strength = Tensor::zeros::<f32>(gray.shape())?;
    kit.function("sobel")?.call((&smooth, &strength))?;
    line("sobel (LLVM)", &elements(&strength)?);
    let edges: Tensor = kit.function("edges")?.call_as((&rgb, 2))?;
    line("edges (Rust, C, LLVM)", &elements(&edges)?);
    let crop: Tensor = kit.function("crop")?.call_as((&gray, 3, 5, 7, 11))?;
    line("crop", &elements(&crop)?);
    let scaler: Function = kit.function("make_scaler")?.call_as((1.5,))?;
    line("make_scaler", &elements(&scaler.call_as((&gray,))?)?);
    let last_first = Function::from_fn(|row: Tensor, index: i64| -> Result<Tensor> {
        let pixels = row.view::<f32>()?.to_vec().into_iter().rev().map(|pixel| pixel + index as f32).collect();
        Tensor::from_vec(pixels, row.shape())
    });
    line("map_rows", &elements(&kit.function("map_rows")?.call_as((&gray, &last_first))?)?);

    // Objects: with and without this program's own type for them.
    let histogram: Any = kit.function("histogram")?.call_as((&gray,))?;
    let threshold: i64 = kit.function("otsu_threshold")?.call_as((&histogram,))?;
    let contrast: f64 = kit.function("contrast")?.call_as((&histogram,))?;
    let bins: Array<i64> = histogram.field("bins")?.to()?;
    let mean: f64 = histogram.field("mean")?.to()?;
    let bins: Vec<String> = bins.iter().take(8).map(|count| count.to_string()).collect();
    line(
        "histogram",
        &format!("mean {mean:?}, threshold {threshold}, contrast {contrast:?}, bins {} ...", bins.join(" ")),
    );
    let own: Result<ObjRef<Statistics>> = histogram.to();
    line(
        "histogram as a type of the program",
        &own.map_or_else(|error| error.to_string(), |own| own.total.to_string()),
    );
    let described: Map<String, Any> = kit.function("describe")?.call_as((&gray,))?;
    let dtype: String = described.get(&"dtype".to_owned()).map_or(Ok(String::new()), |dtype| dtype.to())?;
    line("describe", &format!("{} entries, dtype {dtype}", described.len()));
    let pgm: Bytes = kit.function("to_pgm")?.call_as((&gray,))?;
    line("to_pgm", &format!("{} bytes", pgm.len()));
    let art: String = kit.function("ascii_art")?.call_as((&gray, 20))?;
    line("ascii_art", &format!("{art:?}"));

    // Errors of Rust, of C (formatted by its printf, from a va_list) and of a callback.
    line("error of Rust", &message(kit.function("crop")?.call((&gray, 30, 5, 20, 11))));
    line("error of a wrong type", &message(kit.function("imagekit.to_gray")?.call((1,))));
    line("error of C", &message(kit.function("blur")?.call((&gray, &crop, 2))));
    line("error of C, with a number", &message(kit.function("blur")?.call((&gray, &smooth, -5_000_000_000_i64))));
    let fails =
        Function::from_fn(|_: Tensor, index: i64| -> Result<Tensor> { kernpack::bail!(KeyError, "no row {index}") });
    line("error of a callback", &message(kit.function("map_rows")?.call((&gray, &fails))));

    // Modules.
    let root = Module::new(Doubles);
    root.import(&kit)?;
    let through: Tensor = root
        .find_function_in_tree("crop")?
        .ok_or_else(|| kernpack::error!(KeyError, "no crop"))?
        .call_as((&gray, 3, 5, 7, 11))?;
    line("crop, found through an import", &elements(&through)?);
    line("imports", &format!("{} {:?}", root.imports().len(), root.imports()[0].kind()));
    Ok(out)
}
