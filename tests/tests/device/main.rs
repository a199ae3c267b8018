//! Devices: those that a program registers, CUDA with a stand-in for the driver, OpenCL.

mod cuda_devices;
mod cuda_launch;
mod fake;
mod opencl;
mod registered;
