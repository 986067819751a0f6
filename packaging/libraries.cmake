# The libraries that sim, traces and placers use: for our own build, and for a project that takes them from an
# installed package, where they are linked statically.
find_package(fmt REQUIRED)
find_package(Boost 1.74 REQUIRED)
find_package(hwy REQUIRED)
find_package(simdjson REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(TBB REQUIRED)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(CLP REQUIRED IMPORTED_TARGET clp)
pkg_check_modules(CBC REQUIRED IMPORTED_TARGET cbc)
