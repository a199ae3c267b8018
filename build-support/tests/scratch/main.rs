//! Small packages that use kernpack-build, which cargo builds in a folder below the target folder.

mod c_header;
mod caching;
mod cuda_kernels;
mod cuda_ways;
mod host_kernels;
mod host_programs;
mod library;
mod linked;
mod mistakes;
mod models;
mod multiversion;
mod opencl_check;
mod opencl_text;
mod other_machine;
mod outputs;
mod own_modules;
mod package;
mod te_devices;
mod te_kernels;
mod tracking;
mod typed;
mod weights_file;
