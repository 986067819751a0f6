# find_package(BaechiSim) gives BaechiSim::sim, BaechiSim::traces and BaechiSim::placers. Headers are included as
# in this project: #include "sim/graph/op_graph.h".
include(${CMAKE_CURRENT_LIST_DIR}/libraries.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/BaechiSimTargets.cmake)
