#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "scenarios/studies/codesign/codesign.h"
#include "sim/error.h"
#include "tests/message.h"
#include "tests/shared_data.h"
#include "tests/temporary_folder.h"
#include "traces/format/compressed_file.h"

using namespace baechi;
using namespace baechi::literals;
using namespace baechi::testing;

TEST_SUITE("area files") {
  TEST_CASE("a table of parts") {
    const TemporaryFolder folder;
    const std::string path = folder.write("areas.csv",
                                          "part,size,area_um2\n"
                                          "tensor_core,32,100.5\n"
                                          "vector_core,4,7\n"
                                          "buffer,1 MiB,1000\n");
    // 3 x 100.5 + 2 x 7 + 1000.
    CHECK(read_area_table(path).area({3, 2, 4, 8, 1_MiB}) == 1315.5);
    CHECK_FALSE(read_area_table(path).area({3, 2, 4, 8, 2_MiB}));
  }

  TEST_CASE("the parts' areas follow from differences of listed accelerators") {
    const TemporaryFolder folder;
    // T(4) = 10, V(2) = 3, B = 100.
    const auto entry = [](int tc, int vc, double area) {
      return fmt::format(R"({{"num_tc": {}, "num_vc": {}, "width": 2, "depth": 2, "width_vc": 2, )"
                         R"("GLB_Buffer": 1024, "area": {}}})",
                         tc, vc, area);
    };
    const std::string list =
        "[" + entry(1, 1, 113) + "," + entry(3, 1, 133) + "," + entry(1, 5, 125) + "]";
    const AreaTable table = read_area_table(folder.write("list.json", list));
    CHECK(table.tensor_core.at(4) == 10.0);
    CHECK(table.vector_core.at(2) == 3.0);
    CHECK(table.buffer.at(Bytes{1024}) == 100.0);
    // One that is not such a sum: 3 x 10 + 5 x 3 + 100 = 145.
    const std::string wrong = "[" + entry(1, 1, 113) + "," + entry(3, 1, 133) + "," +
                              entry(1, 5, 125) + "," + entry(3, 5, 146) + "]";
    const std::string mistake =
        message<InputError>([&] { read_area_table(folder.write("wrong.json", wrong)); });
    CHECK(mistake.find("is not the sum of its parts") != std::string::npos);
  }

  TEST_CASE("mistakes are reported with their positions") {
    const TemporaryFolder folder;
    const auto mistake = [&](const std::string& text) {
      return message<InputError>([&] { read_area_table(folder.write("a.csv", text)); });
    };
    CHECK(mistake("part,size,area_um2\ncore,4,1\n")
              .ends_with("a.csv:2:1: 'core' is not one of tensor_core, vector_core, buffer"));
    CHECK(mistake("part,size,area_um2\nbuffer,4,1\n")
              .ends_with("a.csv:2:8: '4' is not a size such as '64 MiB'"));
    CHECK(mistake("part,size,area_um2\nvector_core,4,1\nvector_core,4,1\n")
              .ends_with("a.csv:3:13: a vector_core of 4 is listed twice"));
    CHECK(mistake("[1, 2]").ends_with("accelerator 0 has no number 'num_tc' above 0"));
    CHECK(mistake("{}").find("neither CSV") != std::string::npos);
  }

  TEST_CASE("PHAZE's 29 360 areas are sums of their parts, within 10^-9") {
    const std::filesystem::path data = testing::published_data();
    const std::string path = (data / "phaze" / "cores.json.zst").string();
    const AreaTable table = read_area_table(path);
    const auto list = nlohmann::json::parse(read_file(path));
    CHECK(list.size() == 29'360);
    CHECK(table.tensor_core.size() == 15);
    CHECK(table.vector_core.size() == 8);
    CHECK(table.buffer.size() == 7);
    double worst = 0.0;
    for (const auto& entry : list) {
      const auto whole = [&](const char* key) { return entry[key].get<std::int64_t>(); };
      const auto area = entry["area"].get<double>();
      const Accelerator design{whole("num_tc"), whole("num_vc"), whole("width"), whole("depth"),
                               Bytes{whole("GLB_Buffer")}};
      worst = std::max(worst, std::abs(*table.area(design) - area) / area);
    }
    CHECK(worst < 1e-9);
    CHECK(*table.area({8, 2, 128, 128, 128_MiB}) == doctest::Approx(278'826'676.3).epsilon(1e-9));
  }
}
