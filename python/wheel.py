#!/usr/bin/env python3
"""wheel.py BUILD FOLDER: writes a wheel of the Python package in the build folder BUILD to FOLDER; prints its path.
The wheel has the package with its types, baechi_torch, and in baechi_data the program, its data and the shared libraries of
both. Its tag is the least glibc of systems where its binaries run: the newest version of a symbol of glibc that one of them
needs, and at least the glibc that comes with the libstdc++ that they need."""
import base64
import hashlib
import os
import pathlib
import platform
import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

BUILD, FOLDER = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
ROOT = pathlib.Path(__file__).resolve().parent.parent
VERSION = re.search(r"project\(baechi_sim VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
# On every Linux with Python: the C library, the C++ library, the loader.
SYSTEM = re.compile(r"(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|ld-linux.*)\.so\.\d+$")
# Systems with this glibc have a libstdc++ with symbols up to this version (of g++ 12, 14): auditwheel's manylinux-policy.json.
LIBSTDCXX = {(2, 35): (3, 4, 30), (2, 39): (3, 4, 33)}


def libraries(*binaries):
    """Name and path of the shared libraries that the binaries load, without those of the system."""
    found = {}
    for binary in binaries:
        for line in subprocess.run(["ldd", binary], check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines():
            name, arrow, path = (line.split() + ["", ""])[:3]
            if arrow == "=>" and not SYSTEM.match(name):
                found[name] = pathlib.Path(path).resolve()
    return found


def least_glibc(binaries):
    needs = subprocess.run(["objdump", "-p", *binaries], check=True, text=True, stdout=subprocess.PIPE).stdout

    def newest(library):
        return max(tuple(map(int, version.split("."))) for version in re.findall(rf"\b{library}_(\d[\d.]*)", needs))

    here = tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")))  # "glibc 2.36"
    company = min((glibc for glibc, symbols in LIBSTDCXX.items() if symbols >= newest("GLIBCXX")), default=here)
    return max(newest("GLIBC"), company)


def stripped(path, folder):
    out = pathlib.Path(folder, path.name)
    subprocess.run(["strip", "--strip-unneeded", "-o", out, path], check=True)
    return out


def files(module, program, scratch):
    """The wheel's files: name, path, whether it is executable."""
    yield "baechi/" + module.name.replace("baechi", "__init__", 1), stripped(module, scratch), False
    package = ROOT / "python" / "package"
    for path in sorted([*package.glob("*/*.*"), *(ROOT / "tools").glob("baechi_*.py")]):
        yield str(path.relative_to(package)) if package in path.parents else path.name, path, False
    yield "baechi_data/bin/baechi", stripped(program, scratch), True
    for name, path in sorted(libraries(module, program).items()):
        yield f"baechi_data/lib/{name}", path, False
    installed = pathlib.Path(scratch, "installed")
    subprocess.run(["cmake", "--install", BUILD, "--prefix", installed, "--component", "program"], check=True,
                   stdout=subprocess.DEVNULL)
    for path in sorted(path for path in (installed / "share" / "baechi-sim").rglob("*") if path.is_file()):
        yield f"baechi_data/{path.relative_to(installed)}", path, os.access(path, os.X_OK)


def write(path, tag, contents):
    info = f"baechi_sim-{VERSION}.dist-info"
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:

        def add(name, content, runs=False):
            entry = zipfile.ZipInfo(name, (2026, 11, 23, 0, 0, 0))
            entry.external_attr = (0o100755 if runs else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}\n")

        for name, content, runs in contents:
            add(name, content.read_bytes(), runs)
        add(f"{info}/METADATA", (f"Metadata-Version: 2.1\nName: baechi-sim\nVersion: {VERSION}\n"
                                 "Summary: Places operator graphs on memory-limited devices, and simulates the step\n"
                                 "License: Apache-2.0\nRequires-Python: >=3.9\nProvides-Extra: arrays\n"
                                 "Requires-Dist: numpy; extra == 'arrays'\n"
                                 "Description-Content-Type: text/markdown\n\n"
                                 f"{(ROOT / 'python' / 'README.md').read_text()}").encode())
        add(f"{info}/WHEEL",
            f"Wheel-Version: 1.0\nGenerator: baechi-sim\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
        add(f"{info}/entry_points.txt", b"[console_scripts]\nbaechi = baechi_data:main\n")
        add(f"{info}/LICENSE", (ROOT / "LICENSE").read_bytes())
        record.append(f"{info}/RECORD,,\n")
        wheel.writestr(f"{info}/RECORD", "".join(record))


def main():
    module, program = BUILD / ("baechi" + sysconfig.get_config_var("EXT_SUFFIX")), BUILD / "baechi"
    python = "cp{}{}".format(*sys.version_info)
    glibc = "_".join(map(str, least_glibc([module, program, *libraries(module, program).values()])))
    tag = f"{python}-{python}-manylinux_{glibc}_{platform.machine()}"
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"baechi_sim-{VERSION}-{tag}.whl"
    with tempfile.TemporaryDirectory() as scratch:
        write(path, tag, files(module, program, scratch))
    print(path)


main()
