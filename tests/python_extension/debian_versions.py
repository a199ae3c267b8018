"""Runs checks.py under the Pythons of Debian unstable, which no release has yet, without installing them.

    python debian_versions.py FOLDER LIBRARY [VERSION..]

FOLDER takes the packages and the unpacked files; LIBRARY is libextmod.so; a VERSION is such as 3.14, or pypy3. apt-get fetches the packages with a
list of its own in FOLDER, so the machine's own lists stay as they are. The programs run with the C library that comes with them.
"""

import subprocess
import sys
from pathlib import Path

SOURCE = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian sid main\n"
# What a Python needs beside its own packages.
LIBRARIES = ["libc6", "libexpat1", "zlib1g", "libffi8", "libbz2-1.0", "liblzma5", "libmpdec4", "libuuid1", "libgcc-s1", "libstdc++6", "libzstd1"]
PACKAGES = {"pypy3": ["pypy3", "pypy3-lib", "libncursesw6", "libtinfo6", "libsqlite3-0"]}
CHECKS = Path(__file__).with_name("checks.py")


def fetch(folder, version):
    """The folder with the unpacked packages of a version."""
    root = folder / "root"
    stamp = folder / f"complete-{version}"
    if stamp.exists():
        return root
    for part in ["state/lists/partial", "cache/archives/partial", "etc", "debs"]:
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / "etc/sid.list").write_text(SOURCE)
    (folder / "state/status").touch()
    settings = {
        "Dir::Etc::SourceList": folder / "etc/sid.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State": folder / "state",
        "Dir::State::status": folder / "state/status",
        "Dir::Cache": folder / "cache",
        "Acquire::Languages": "none",
    }
    apt = ["apt-get", "-qq"] + [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
    subprocess.run([*apt, "update"], check=True)
    own = [f"python{version}-minimal", f"libpython{version}-minimal", f"libpython{version}-stdlib"]
    packages = PACKAGES.get(version, own)
    subprocess.run([*apt, "download", *packages, *LIBRARIES], cwd=folder / "debs", check=True)
    for package in (folder / "debs").glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)
        package.unlink()
    stamp.touch()
    return root


def command(root, version):
    """What starts the Python of a version in its own root, with its own C library."""
    loader = next(root.glob("**/ld-linux-*.so.*"))
    folders = {path.parent for path in root.glob("usr/lib/*/lib*.so*")} | {loader.parent}
    program = root / "usr/bin" / (version if version in PACKAGES else f"python{version}")
    return [loader, "--library-path", ":".join(map(str, sorted(folders))), program.resolve()]


def main():
    folder, library, *versions = sys.argv[1:]
    folder, library = Path(folder).resolve(), Path(library).resolve()
    place = folder / "import"
    place.mkdir(parents=True, exist_ok=True)
    (place / "extmod.so").unlink(missing_ok=True)
    (place / "extmod.so").symlink_to(library)
    wrong = []
    for version in versions or ["3.13", "3.14", "3.15", "pypy3"]:
        root = fetch(folder, version)
        environment = {"PYTHONHOME": str(root / "usr"), "PYTHONDONTWRITEBYTECODE": "1"} if version not in PACKAGES else {}
        start = [str(part) for part in command(root, version)]
        result = subprocess.run([*start, str(CHECKS), str(place)], capture_output=True, text=True, env=environment)
        last = (result.stdout + result.stderr).strip().splitlines()[-1:]
        if version in PACKAGES:
            passed = result.returncode != 0 and any("ImportError" in line or "ModuleNotFoundError" in line for line in last)
        else:
            passed = (result.returncode, last) == (0, ["every check passed"])
        print(version, "passed" if passed else "failed", last, flush=True)
        if not passed:
            wrong.append(version)
            print(result.stdout + result.stderr)
    sys.exit(f"failed: {wrong}" if wrong else 0)


main()
