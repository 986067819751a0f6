// baechi_goldens DIR: replays goldens of the original Baechi with every quirk on.

#include <iostream>

#include "sim/error.h"
#include "tests/golden/goldens.h"

int main(int argc, char** argv) {
  using namespace baechi;
  if (argc != 2 || std::string_view(argv[1]).starts_with("-")) {
    fmt::print(stderr,
               "usage: baechi_goldens DIR\n"
               "Replays every golden of the original Baechi in DIR and compares every field.\n"
               "Exit codes: 0 no mismatch, 3 mismatches, 2 DIR cannot be read.\n");
    return argc == 2 && std::string_view(argv[1]) == "--help" ? 0 : 2;
  }
  golden::Report report(std::cout);
  try {
    golden::check_folder(argv[1], report);
  } catch (const std::exception& e) {
    std::cout.flush();
    fmt::print(stderr, "baechi_goldens: {}\n", e.what());
    return 2;
  }
  report.print_summary();
  return report.failed() == 0 ? 0 : 3;
}
