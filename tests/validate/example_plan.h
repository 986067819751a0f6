/// The plan that validate/FORMATS.md shows.
#pragma once

namespace baechi::testing {

//   0: spin 20 us on device 0 --> 1: spin 30 us on device 0
//        \--> 2: 64 KiB to device 1 in 145.496 us --> 3: gemm on device 1, foretold 25 us
inline constexpr const char* example_plan = R"(baechi-plan 1
name tower/m_etf/0
hash 9f86d081884c7d65
devices 2
queues 1
mode graph
way link
memory none
budget 0 1073741824
budget 1 1073741824
resident 0 1048576
resident 1 0
op 0 0 20000 spin 20000
buffer 0 0 65536 0 until 1 2
op 1 0 30000 spin 30000 after 0
transfer 2 0 1 0 65536 145496 after 0
buffer 1 1 65536 2 until 3
op 3 1 25000 gemm 512 after 2
end 4 2
)";

}  // namespace baechi::testing
