//! A Rust program that links the crate: functions, types and kernels of all kinds, including device
//! kernels.

use dspkit::filter::{Biquad, Pass};
use dspkit::signal::{noise, silence, sine};
use dspkit::spectrum::{Window, level, spectrum};
use dspkit::{effects, files, peaks};
use kernpack::{Device, TypedFunction};
use kernpack_skip::skip;

#[test]
fn kernels_in_c_and_llvm_ir() -> kernpack::Result<()> {
    let tone = sine(1000.0, 0.5, 48000.0, 0.5, None)?;
    assert!((tone.rms()? - 0.5 / 2f64.sqrt()).abs() < 1e-6);
    let taps = kernpack::Tensor::from_slice(&[0.5f32, 0.5], &[2])?;
    let smoothed = effects::convolve(&tone, taps.view()?)?;
    assert!(smoothed.rms()? < tone.rms()?);
    assert!((level(&tone, 1000.0)? - 0.5).abs() < 1e-3 && level(&tone, 3000.0)? < 1e-3);
    // The kernel around a C function checks its arguments.
    let error = dspkit::kernels::goertzel.call((&tone.samples, 24001, 1000.0, 48000.0)).err().unwrap();
    assert!(error.message().ends_with("argument 'samples': expected at least 24001 elements, got 24000"), "{error}");
    Ok(())
}

#[test]
fn a_filter_takes_away_what_it_does_not_let_pass() -> kernpack::Result<()> {
    let low = Biquad::design(Pass::Low, 500.0, 48000.0, 0.7)?;
    let (below, above) = (sine(100.0, 0.2, 48000.0, 1.0, None)?, sine(8000.0, 0.2, 48000.0, 1.0, None)?);
    assert!(low.run(&below)?.rms()? > 0.6 && low.run(&above)?.rms()? < 0.05);
    assert!((spectrum(&above, Window::Hann)?.loudest()? - 8000.0).abs() < 10.0);
    assert_eq!(peaks::peaks(&below, 0.5, Some(3))?.len(), 3);
    Ok(())
}

#[test]
fn functions_and_files() -> kernpack::Result<()> {
    let path = std::env::temp_dir().join(format!("dspkit-{}.wav", std::process::id()));
    let path = path.to_str().unwrap();
    let noise = noise(0.01, 8000.0, 7)?;
    files::write_wav(path, &noise)?;
    let again = files::read_wav(path)?;
    std::fs::remove_file(path).unwrap();
    assert_eq!((again.rate, again.samples.shape()), (8000.0, &[80][..]));
    let halved: TypedFunction<(f64,), f64> = kernpack::Function::from_fn(|x: f64| x / 2.0).typed();
    assert!((effects::apply(&noise, halved)?.rms()? * 2.0 - noise.rms()?).abs() < 1e-6);
    let error = files::read_wav("/nowhere/at.wav").err().unwrap();
    assert_eq!(error.kind(), "FileNotFoundError");
    let error =
        effects::mix(vec![kernpack::ObjRef::new(noise), kernpack::ObjRef::new(silence(0.1, 48000.0)?)]).err().unwrap();
    assert_eq!(error.kind(), "RateMismatch");
    Ok(())
}

/// The image of the kernel is in the library, and in a program that links the crate.
#[test]
fn the_opencl_kernel_of_a_linked_crate() -> kernpack::Result<()> {
    let device: Device = "opencl:0".parse()?;
    if !kernpack::device::exists(device) {
        skip("there is no OpenCL device");
        return Ok(());
    }
    let tone = sine(1000.0, 0.1, 48000.0, 0.25, None)?;
    let loud = effects::amplify(&tone, 2.0, "opencl:0")?;
    assert!((loud.rms()? - 2.0 * tone.rms()?).abs() < 1e-5);
    Ok(())
}
