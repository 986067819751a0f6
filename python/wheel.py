#!/usr/bin/env python3
"""wheel.py BUILD FOLDER: writes a wheel of the Python package in the build folder BUILD to FOLDER; prints its path.
The wheel has the package with its types, baechi_torch, and in baechi_data the program, its data and the shared libraries of
both. It needs no compiler, but glibc and libstdc++ of this machine's version or later: its tag says so."""
import base64
import glob
import hashlib
import os
import platform
import re
import subprocess
import sys
import tempfile
import zipfile

BUILD, FOLDER = (os.path.abspath(path) for path in sys.argv[1:3])
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PACKAGE = os.path.join(ROOT, "python", "package")
# On every Linux with Python: the C library, the C++ library, the loader.
SYSTEM = re.compile(r"(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|ld-linux.*)\.so\.\d+$")

def version():
    with open(os.path.join(ROOT, "CMakeLists.txt")) as file:
        return re.search(r"project\(baechi_sim VERSION (\S+)", file.read())[1]


def libraries(*binaries):
    """Name and path of the shared libraries that the binaries load, without those of the system."""
    found = {}
    for binary in binaries:
        for line in subprocess.run(["ldd", binary], check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines():
            name, arrow, path = (line.split() + ["", ""])[:3]
            if arrow == "=>" and not SYSTEM.match(name):
                found[name] = os.path.realpath(path)
    return found


def stripped(path, folder):
    out = os.path.join(folder, os.path.basename(path))
    subprocess.run(["strip", "--strip-unneeded", "-o", out, path], check=True)
    return out


def files(module, scratch):
    """The wheel's files: name, path or contents, whether it is executable."""
    program = os.path.join(BUILD, "baechi")
    yield "baechi/" + os.path.basename(module).replace("baechi", "__init__", 1), stripped(module, scratch), False
    for part in ("baechi", "baechi_data"):
        for name in sorted(os.listdir(os.path.join(PACKAGE, part))):
            if not name.startswith("__pycache__"):
                yield f"{part}/{name}", os.path.join(PACKAGE, part, name), False
    for tool in sorted(glob.glob(os.path.join(ROOT, "tools", "baechi_*.py"))):
        yield os.path.basename(tool), tool, False
    yield "baechi_data/bin/baechi", stripped(program, scratch), True
    for name, path in sorted(libraries(module, program).items()):
        yield f"baechi_data/lib/{name}", path, False
    installed = os.path.join(scratch, "installed")
    subprocess.run(["cmake", "--install", BUILD, "--prefix", installed, "--component", "program"], check=True,
                   stdout=subprocess.DEVNULL)
    for folder, _, names in sorted(os.walk(os.path.join(installed, "share", "baechi-sim"))):
        for name in sorted(names):
            path = os.path.join(folder, name)
            yield "baechi_data/" + os.path.relpath(path, installed), path, os.access(path, os.X_OK)


def write(path, tag, module, scratch):
    info = f"baechi_sim-{version()}.dist-info"
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:

        def add(name, content, runs=False):
            if isinstance(content, str):
                with open(content, "rb") as file:
                    content = file.read()
            entry = zipfile.ZipInfo(name, (2026, 11, 23, 0, 0, 0))
            entry.external_attr = (0o100755 if runs else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}\n")

        for name, content, runs in files(module, scratch):
            add(name, content, runs)
        with open(os.path.join(ROOT, "python", "README.md")) as file:
            readme = file.read()
        add(f"{info}/METADATA", (f"Metadata-Version: 2.1\nName: baechi-sim\nVersion: {version()}\n"
                                 "Summary: Places operator graphs on memory-limited devices, and simulates the step\n"
                                 "License: Apache-2.0\nRequires-Python: >=3.9\nProvides-Extra: arrays\n"
                                 "Requires-Dist: numpy; extra == 'arrays'\n"
                                 f"Description-Content-Type: text/markdown\n\n{readme}").encode())
        add(f"{info}/WHEEL",
            f"Wheel-Version: 1.0\nGenerator: baechi-sim\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
        add(f"{info}/entry_points.txt", b"[console_scripts]\nbaechi = baechi_data:main\n")
        add(f"{info}/LICENSE", os.path.join(ROOT, "LICENSE"))
        record.append(f"{info}/RECORD,,\n")
        wheel.writestr(f"{info}/RECORD", "".join(record))


def main():
    modules = [name for name in os.listdir(BUILD) if re.match(r"baechi\.cpython-.*\.so$", name)]
    if len(modules) != 1:
        sys.exit(f"{BUILD}: expected one module baechi.cpython-*.so, found {len(modules)}")
    python = "cp" + re.match(r"baechi\.cpython-(\d+)", modules[0])[1]
    glibc = os.confstr("CS_GNU_LIBC_VERSION").split()[1].replace(".", "_")  # "glibc 2.36"
    tag = f"{python}-{python}-manylinux_{glibc}_{platform.machine()}"
    os.makedirs(FOLDER, exist_ok=True)
    path = os.path.join(FOLDER, f"baechi_sim-{version()}-{tag}.whl")
    with tempfile.TemporaryDirectory() as scratch:
        write(path, tag, os.path.join(BUILD, modules[0]), scratch)
    print(path)


main()
