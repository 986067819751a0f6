"""A package for Spack (as package.py). Nobody has tried it: names of libraries may differ there."""
from spack.package import *


class BaechiSim(CMakePackage):
    """Places operator graphs on memory-limited devices, and simulates the training step."""

    version("1.0.0")
    variant("mpi", default=True, description="Run sweeps on several machines")

    for name in ("fmt@9", "boost@1.74:", "simdjson", "nlohmann-json", "yaml-cpp@0.7", "tbb", "sqlite", "expat", "zlib",
                 "zstd", "highway", "cbc", "clp", "scotch+int64", "metis+int64", "cli11"):
        depends_on(name)
    depends_on("openmpi", when="+mpi")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")

    def cmake_args(self):
        off = [self.define(f"BAECHI_{part}", False) for part in ("TESTS", "BENCH", "HARNESS")]
        return off + [self.define_from_variant("BAECHI_MPI", "mpi")]
