# What 'cmake --install' puts where: PREFIX/bin, share/baechi-sim (laid out as the checkout, so that a scenario
# finds its traces), include/baechi-sim, the libraries with a CMake package, and the shell's completions.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(data ${CMAKE_INSTALL_DATADIR}/baechi-sim)
set(headers ${CMAKE_INSTALL_INCLUDEDIR}/baechi-sim)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/BaechiSim)

install(TARGETS baechi)
install(DIRECTORY scenarios/examples scenarios/clusters scenarios/papers scenarios/whatif DESTINATION ${data}/scenarios)
install(FILES scenarios/devices.yaml scenarios/scenario.schema.json scenarios/README.md
        DESTINATION ${data}/scenarios)
install(DIRECTORY scenarios/arena/instances scenarios/arena/duels DESTINATION ${data}/scenarios/arena)
install(FILES scenarios/arena/known.json DESTINATION ${data}/scenarios/arena)
install(DIRECTORY traces/data DESTINATION ${data}/traces)
install(FILES README.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES packaging/baechi.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME baechi)

install(DIRECTORY sim traces placers DESTINATION ${headers} FILES_MATCHING PATTERN "*.h"
        PATTERN "data" EXCLUDE)
install(TARGETS baechi_build sim traces placers EXPORT BaechiSim
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/baechi-sim)
install(EXPORT BaechiSim NAMESPACE BaechiSim:: FILE BaechiSimTargets.cmake DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/BaechiSimConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES packaging/BaechiSimConfig.cmake packaging/libraries.cmake
        ${PROJECT_BINARY_DIR}/BaechiSimConfigVersion.cmake DESTINATION ${package})
