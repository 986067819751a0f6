# 'cpack' packs what is built: baechi-sim_VERSION-1_ARCHITECTURE.deb with the program, its data and its pages. A
# program in C++ that uses the libraries takes them from 'cmake --install'.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME baechi-sim)
set(CPACK_PACKAGE_VENDOR "The Baechi-Sim authors")
set(CPACK_PACKAGE_CONTACT "The Baechi-Sim authors <baechi-sim@example.org>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "placement of operator graphs on devices, simulated")
set(CPACK_PACKAGE_DESCRIPTION "Baechi-Sim decides which device runs each operation of a model,
 by Baechi's m-TOPO, m-ETF and m-SCT and by other placers. Then it
 simulates the training step: times, transfers and memory.")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "python3:any")  # placers among the examples
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3-matplotlib, jq")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_COMPONENTS_ALL program)
include(CPack)
