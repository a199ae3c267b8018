"""The versions of drivers, tools and packages. No package is imported, so this step is fast and does not use a GPU."""

import ctypes
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys

print(f"system: {platform.platform()}, glibc {platform.libc_ver()[1]}, {os.cpu_count()} CPUs")
print(f"Python: {sys.version.split()[0]} at {sys.executable}")
for package in ("torch", "triton", "cupy-cuda13x", "cupy-cuda12x", "jax", "jaxlib", "numpy", "apache-tvm-ffi", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime"):
    try:
        print(f"{package}: {importlib.metadata.version(package)}")
    except importlib.metadata.PackageNotFoundError:
        print(f"{package}: none")
for name in ("libcuda.so.1", "libcudart.so.13", "libcudart.so.12"):
    try:
        library = ctypes.CDLL(name)
    except OSError:
        print(f"{name}: none")
        continue
    version = ctypes.c_int(0)
    ask = library.cuDriverGetVersion if "cudart" not in name else library.cudaRuntimeGetVersion
    ask(ctypes.byref(version))
    print(f"{name}: CUDA {version.value // 1000}.{version.value % 1000 // 10}")
homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
for program, arguments in (
    ("nvidia-smi", ["--query-gpu=name,driver_version,memory.total,clocks.sm,clocks.max.sm,temperature.gpu", "--format=csv,noheader"]),
    ("nvcc", ["--version"]),
    ("compute-sanitizer", ["--version"]),
    ("ncu", ["--version"]),
):
    places = [os.path.join(home, folder, program) for home in homes if home for folder in ("bin", "compute-sanitizer")]
    path = shutil.which(program) or next((place for place in places if os.access(place, os.X_OK)), None)
    if path is None:
        print(f"{program}: none")
        continue
    try:
        done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=10)
        lines = [line for line in (done.stdout or done.stderr).splitlines() if line.strip()]
        print(f"{program}: {lines[-1] if lines else 'says nothing'} ({path})")
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"{program}: {error}")
