# What 'cmake --install' puts where: PREFIX/bin, share/baechi-sim (laid out as the checkout, so that a scenario
# finds its traces), the shell's completions; include/baechi-sim and the libraries with a CMake package. What the
# Debian package has is component 'program'.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(docs ${CMAKE_INSTALL_DATADIR}/doc/baechi-sim)
set(data ${CMAKE_INSTALL_DATADIR}/baechi-sim)
set(headers ${CMAKE_INSTALL_INCLUDEDIR}/baechi-sim)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/BaechiSim)

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME program)
install(TARGETS baechi)
install(DIRECTORY scenarios/examples scenarios/clusters scenarios/frameworks scenarios/papers scenarios/whatif
        scenarios/jobs DESTINATION ${data}/scenarios USE_SOURCE_PERMISSIONS)
install(FILES scenarios/devices.yaml scenarios/scenario.schema.json scenarios/README.md
        DESTINATION ${data}/scenarios)
install(DIRECTORY scenarios/arena/instances scenarios/arena/duels DESTINATION ${data}/scenarios/arena)
install(FILES scenarios/arena/known.json DESTINATION ${data}/scenarios/arena)
install(DIRECTORY traces/data DESTINATION ${data}/traces)
install(DIRECTORY validate/published/data DESTINATION ${data}/validate/published)
file(GLOB board validate/published/*.py validate/published/*.csv)
install(FILES ${board} DESTINATION ${data}/validate/published)
file(GLOB fits validate/fit/*.py)
install(FILES ${fits} DESTINATION ${data}/validate/fit)
install(FILES validate/pytorch/score.py DESTINATION ${data}/validate/pytorch)
file(GLOB tools CONFIGURE_DEPENDS tools/baechi_*.py)
install(FILES ${tools} DESTINATION ${data}/tools)
install(FILES README.md QUESTIONS.md STABLE.md GLOSSARY.md packaging/copyright DESTINATION ${docs})
find_program(GZIP gzip REQUIRED)
foreach(page IN ITEMS "CHANGELOG.md changelog" "packaging/changelog changelog.Debian")
  separate_arguments(page)
  list(POP_FRONT page from to)
  execute_process(COMMAND ${GZIP} -9nc ${PROJECT_SOURCE_DIR}/${from} OUTPUT_FILE ${PROJECT_BINARY_DIR}/${to}.gz
                  COMMAND_ERROR_IS_FATAL ANY)
  install(FILES ${PROJECT_BINARY_DIR}/${to}.gz DESTINATION ${docs})
endforeach()
install(FILES packaging/baechi.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME baechi)

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
install(DIRECTORY sim traces placers DESTINATION ${headers} FILES_MATCHING PATTERN "*.h"
        PATTERN "data" EXCLUDE)
install(TARGETS baechi_build sim traces placers EXPORT BaechiSim
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/baechi-sim)
install(EXPORT BaechiSim NAMESPACE BaechiSim:: FILE BaechiSimTargets.cmake DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/BaechiSimConfigVersion.cmake
                                 COMPATIBILITY SameMajorVersion)
install(FILES packaging/BaechiSimConfig.cmake packaging/libraries.cmake
        ${PROJECT_BINARY_DIR}/BaechiSimConfigVersion.cmake DESTINATION ${package})
