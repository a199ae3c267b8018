"""Runs the checks of the extension module under Pythons that this machine need not have, without installing them: `cargo xtask pythons`.

    python versions.py FOLDER LIBRARY [VERSION..]

FOLDER takes the packages and what is unpacked or built; LIBRARY is libextmod.so. A VERSION is

    3.13, 3.14, 3.15   packages of Debian unstable, with the C library that comes with them
    pypy3              the same; it has to refuse the library with a sentence
    3.13t              without the interpreter's lock, built from the source in Debian stable: a quarter of an hour on two cores
    3.13t-tsan         the same under ThreadSanitizer, with clang; LIBRARY has to be instrumented, too

apt-get fetches with lists of its own in FOLDER, so the machine's own stay as they are. Without a VERSION all but the last one are tried, and those that
could not be had are named.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
KEYS = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
# The libraries that a Python needs in addition to its own packages.
LIBRARIES = ["libc6", "libexpat1", "zlib1g", "libffi8", "libbz2-1.0", "liblzma5", "libmpdec4", "libuuid1", "libgcc-s1", "libstdc++6", "libzstd1"]
PACKAGES = {"pypy3": ["pypy3", "pypy3-lib", "libncursesw6", "libtinfo6", "libsqlite3-0"]}
# Threads and rounds of threads.py.
STRESS = [("200", "50"), ("1000", "5")]
STRESS_WATCHED = [("48", "40"), ("1000", "2")]
SECONDS = "5"


class Missing(Exception):
    """A Python that is not available."""


def run(*command, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    return result.returncode, result.stdout, result.stderr


def must(*command, **options):
    code, out, err = run(*command, **options)
    if code != 0:
        raise Missing(f"{command[0]}: {(err or out).strip().splitlines()[-1:]}")


def mirror():
    """The mirror of Debian that apt is configured for, with the keys of its packages."""
    status, output, _ = run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian")
    found = [line for line in output.splitlines() if not line.rstrip("/").endswith("-security")]
    if status != 0 or not found:
        raise Missing("apt is configured for no mirror of Debian (/etc/apt/sources.list.d)")
    return f"{KEYS} {found[0]}"


def apt(folder, source):
    """apt-get with separate package lists."""
    for part in ["state/lists/partial", "cache/archives/partial", "etc", "files"]:
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "etc/sources.list").write_text(source + "\n")
    (folder / "state/status").touch()
    settings = {
        "Dir::Etc::SourceList": folder / "etc/sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State": folder / "state",
        "Dir::State::status": folder / "state/status",
        "Dir::Cache": folder / "cache",
        "Acquire::Languages": "none",
    }
    command = ["apt-get", "-qq"] + [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
    must(*command, "update")
    return command


def unpacked(folder, version):
    """The command that starts a Python of Debian unstable, with its own loader and libraries."""
    root, stamp = folder / "root", folder / f"complete-{version}"
    if not stamp.exists():
        lists = folder / "unstable"
        command = apt(lists, f"deb {mirror()} sid main")
        own = [f"python{version}-minimal", f"libpython{version}-minimal", f"libpython{version}-stdlib"]
        must(*command, "download", *PACKAGES.get(version, own), *LIBRARIES, cwd=lists / "files")
        for package in (lists / "files").glob("*.deb"):
            must("dpkg-deb", "-x", package, root)
            package.unlink()
        stamp.touch()
    loader = next(root.glob("**/ld-linux-*.so.*"))
    folders = {path.parent for path in root.glob("usr/lib/*/lib*.so*")} | {loader.parent}
    program = root / "usr/bin" / (version if version in PACKAGES else f"python{version}")
    home = {} if version in PACKAGES else {"PYTHONHOME": str(root / "usr")}
    return [loader, "--library-path", ":".join(map(str, sorted(folders))), program.resolve()], home


def clang():
    """The compiler, which is not on PATH under this name on Debian."""
    found = [shutil.which("clang"), *sorted(Path("/usr/lib").glob("llvm-*/bin/clang"), reverse=True)]
    if not any(found):
        raise Missing("there is no clang")
    return str(next(path for path in found if path))


def built(folder, version):
    """A Python without the interpreter's lock, built from its source."""
    name = version.partition("t")[0]
    watched = version.endswith("-tsan")
    root, stamp = folder / version, folder / f"complete-{version}"
    program = root / f"bin/python{name}t"
    if stamp.exists():
        return [program], {}
    lists = folder / "stable"
    command = apt(lists, f"deb-src {mirror()} stable main")
    must(*command, "source", "--download-only", "--tar-only", f"python{name}", cwd=lists / "files")
    archive = next((lists / "files").glob(f"python{name}_*.orig.tar.xz"))
    source = folder / f"source-{version}"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir()
    must("tar", "xf", archive, "--strip-components=1", "-C", source)
    options, options_of_make, environment = ["CFLAGS=-O2"], [], dict(os.environ)
    if watched:
        environment["CC"] = clang()
        options = ["--with-thread-sanitizer", "CFLAGS=-O1 -g1"]
        # The sanitizer's own functions are those of rustc, which may be newer than clang's.
        _, libraries, _ = run("rustc", "--print", "target-libdir")
        runtime = next(Path(libraries.strip()).glob("librustc-*_rt.tsan.a"), None)
        if not runtime:
            raise Missing("rustc has no thread sanitizer")
        link = f"-fno-sanitize-link-runtime -Wl,--whole-archive {runtime} -Wl,--no-whole-archive -ldl -lrt -lm -lpthread"
        options_of_make = [f"LINKFORSHARED=-Xlinker -export-dynamic {link}"]
    must("./configure", "--disable-gil", f"--prefix={root}", "--without-ensurepip", "--disable-test-modules", *options, cwd=source, env=environment)
    must("make", f"-j{os.cpu_count()}", *options_of_make, cwd=source, env=environment)
    must("make", "install", *options_of_make, cwd=source, env=environment)
    shutil.rmtree(source)
    stamp.touch()
    return [program], {}


def passed(result, last):
    code, out, err = result
    if code == 0 and out.strip().splitlines()[-1:] == [last]:
        return True
    print(out + err, flush=True)
    return False


def check(start, version, place, environment):
    """Returns true if the checks have the expected output."""
    def stress(threads, rounds, lock="without"):
        result = run(*start, HERE / "threads.py", place, threads, rounds, env=environment)
        return passed(result, f"{threads} threads, {rounds} rounds, {lock} the lock: passed")

    def memory(lock="without"):
        result = run(*start, HERE / "memory_threads.py", place, SECONDS, env=environment)
        return passed(result, f"8 threads, {lock} the lock: no memory was lost")

    if version.endswith("-tsan"):
        # The symbolizer is in the folder of clang.
        environment["PATH"] = f"{os.environ['PATH']}:{Path(clang()).parent.resolve()}"
        environment["TSAN_OPTIONS"] = f"suppressions={HERE / 'tsan.supp'} halt_on_error=1"
        without = all(stress(*size) for size in STRESS_WATCHED) and memory()
        environment["PYTHON_GIL"] = "1"
        return without and all(stress(*size, "with") for size in STRESS_WATCHED) and memory("with")
    if version == "pypy3":
        return refused(start, place, environment)
    if not passed(run(*start, HERE / "checks.py", place, env=environment), "every check passed"):
        return False
    for frames in ["0", "1"]:
        shown = {**environment, "KERNPACK_PYTHON_TRACEBACK": frames}
        if not passed(run(*start, HERE / "exceptions.py", place, env=shown), "passed"):
            return False
    return not version.endswith("t") or (all(stress(*size) for size in STRESS) and memory())


def refused(start, place, environment):
    """PyPy does not find the file; under the name that it looks for, the file reports the reason."""
    program = "import sys; sys.path.insert(0, sys.argv[1])\ntry:\n    import extmod\nexcept ImportError as error:\n    print(error)"
    if not passed(run(*start, "-c", program, place, env=environment), "No module named 'extmod'"):
        return False
    _, suffix, _ = run(*start, "-c", "import importlib.machinery as m; print(m.EXTENSION_SUFFIXES[0])", env=environment)
    named = place / "named"
    named.mkdir(exist_ok=True)
    link(named / f"extmod{suffix.strip()}", place / "extmod.so")
    return passed(run(*start, "-c", program, named, env=environment), "extmod: PyPy is not supported; CPython 3.9 or newer is needed")


def link(name, target):
    name.unlink(missing_ok=True)
    name.symlink_to(target)


def main():
    folder, library, *asked = sys.argv[1:]
    folder, library = Path(folder).resolve(), Path(library).resolve()
    place = folder / "import"
    place.mkdir(parents=True, exist_ok=True)
    link(place / "extmod.so", library)
    ran, wrong, missing = [], [], []
    for version in asked or ["3.13", "3.14", "3.15", "pypy3", "3.13t"]:
        try:
            start, own = built(folder, version) if "t" in version else unpacked(folder, version)
        except Missing as error:
            missing.append(f"{version} ({error})")
            continue
        environment = {"PYTHONDONTWRITEBYTECODE": "1", **own}
        good = check([str(part) for part in start], version, place, environment)
        print(version, "passed" if good else "failed", flush=True)
        (ran if good else wrong).append(version)
    print(f"passed: {', '.join(ran) or 'none'}; failed: {', '.join(wrong) or 'none'}; did not run: {', '.join(missing) or 'none'}")
    sys.exit(bool(wrong or (asked and missing)))


main()
