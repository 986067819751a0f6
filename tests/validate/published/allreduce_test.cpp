#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "sim/error.h"
#include "sim/find_entry.h"
#include "tests/message.h"
#include "tests/shared_data.h"
#include "tests/temporary_folder.h"
#include "tests/this_build.h"
#include "validate/fit/fit.h"
#include "validate/least_deviations.h"
#include "validate/published/measured_files.h"
#include "validate/published/published.h"

using namespace baechi;
using namespace baechi::validate;
using namespace baechi::testing;

namespace {

constexpr const char* header = "size(B),count,type,time(ns),busbw(GB/s),time(ns),busbw(GB/s)\n";

Comparison compared(std::string_view block, const std::string& folder) {
  auto comparison = find_entry(published_blocks(), "block", block).compare(folder);
  REQUIRE(comparison);
  return std::move(*comparison);
}
std::vector<PublishedRow> rows_of(std::string_view block, const std::string& folder) {
  return compared(block, folder).rows;
}

std::string write(const TemporaryFolder& folder, const std::string& file, std::string_view text) {
  const std::filesystem::path path = folder.file(file);
  std::filesystem::create_directories(path.parent_path());
  return folder.write(file, text);
}

}  // namespace

TEST_SUITE("published") {
  TEST_CASE("an all-reduce block compares each size with the node's model, out of place") {
    const TemporaryFolder folder;
    write(folder, "vtrain/allreduce/a100_gpu3.csv",
          fmt::format("{}1048576,262144,float,50000,1,99000,1\n", header));
    const std::vector<PublishedRow> rows = rows_of("allreduce_a100", folder.file(""));
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].what == "3 GPUs, 1 MiB");
    CHECK(rows[0].group == "3 GPUs");
    CHECK(rows[0].measured == 50.0);  // us, of the first of the two times
    // 49.04 + 4 x 3.171 us, and 2^20 x 4 / 3 bytes at 246 / (1 + 0.5224 / 3) GB/s
    CHECK(rows[0].simulated == doctest::Approx(61.724 + 6.673).epsilon(1e-4));
  }

  TEST_CASE("a DGX-1's bandwidth is its rings': twice as much on three V100s as on two") {
    const TemporaryFolder folder;
    for (const int n : {2, 3, 5})
      write(folder, fmt::format("vtrain/allreduce/v100_gpu{}.csv", n),
            fmt::format("{}1073741824,1,float,1000,1,1,1\n", header));
    const std::vector<PublishedRow> rows = rows_of("allreduce_v100", folder.file(""));
    REQUIRE(rows.size() == 3);
    const double wire = 22.57e3;  // bytes per us
    const double bytes = 1073741824.0;
    CHECK(rows[0].simulated == doctest::Approx(17.55 + 2 * 2.76 + bytes / wire));
    CHECK(rows[1].simulated == doctest::Approx(17.55 + 4 * 2.76 + bytes * 4 / 3 / (2 * wire)));
    // Five: no ring, two chains whose wires carry the buffer there and back.
    CHECK(rows[2].simulated == doctest::Approx(17.55 + 8 * 2.76 + bytes / wire));
  }

  TEST_CASE("nccl_unfitted takes rows from a megabyte on, and knows its systems") {
    const TemporaryFolder folder;
    const std::string columns = "system,gpus,nodes,bytes,time_us,source\n";
    write(folder, "papers/nccl_allreduce.csv",
          columns + "h100_x4,4,1,8,26,\"a log, public\"\nh100_x4,4,1,1073741824,4525.6,log\n");
    const std::vector<PublishedRow> rows = rows_of("nccl_unfitted", folder.file(""));
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].what == "h100_x4, 1024 MiB");
    // 8.4 + 6 x 3.4 us and 2^30 x 3 / 2 bytes at 80 % of 450 GB/s
    CHECK(rows[0].simulated == doctest::Approx(28.8 + 4473.9).epsilon(1e-4));
    const std::string path =
        write(folder, "papers/nccl_allreduce.csv", columns + "abacus,4,1,1073741824,4525.6,log\n");
    const Comparison unknown = compared("nccl_unfitted", folder.file(""));
    CHECK(unknown.rows.empty());
    REQUIRE(unknown.left.skipped.size() == 1);
    CHECK(unknown.left.skipped[0].why.starts_with(
        path + ":2:1: no system 'abacus' (systems: a100_80_x8_mpi"));
  }

  TEST_CASE("a linear fit finds the line that most rows are on, whatever the others say") {
    // measured = 3 + 2 x, but for one row of eight
    std::vector<FitRow> rows;
    for (int x = 1; x <= 8; ++x) rows.push_back({{1.0, static_cast<double>(x)}, 3.0 + 2.0 * x});
    rows[4].measured = 100.0;
    const std::vector<double> fitted = least_relative_deviations(rows);
    CHECK(fitted[0] == doctest::Approx(3.0).epsilon(1e-3));
    CHECK(fitted[1] == doctest::Approx(2.0).epsilon(1e-3));
    CHECK_THROWS_AS(least_relative_deviations(std::vector<FitRow>(3, {{1.0, 1.0}, 1.0})),
                    InputError);
  }

  TEST_CASE("the fit of collectives reads shared numbers of ranks only") {
    const std::filesystem::path data = testing::published_data();
    const TemporaryFolder folder;
    std::filesystem::create_directories(folder.file("vtrain"));
    std::filesystem::copy(data / "vtrain/allreduce", folder.file("vtrain/allreduce"));
    const FitEntry& fit = find_entry(fits(), "fit", "collectives");
    const std::string before = fit.fit(folder.file(""), {});
    // What is kept back may lie beside them: it must not matter.
    for (const char* n : {"a100_gpu3", "a100_gpu5", "v100_gpu4", "v100_gpu7"})
      write(folder, std::string("vtrain/allreduce/") + n + ".csv",
            fmt::format("{}1048576,1,float,1,1,1,1\n", header));
    CHECK(fit.fit(folder.file(""), {}) == before);
  }

  TEST_CASE("devices.yaml has what the fit of collectives prints") {
    const std::filesystem::path data = testing::published_data();
    std::ostringstream text;
    text << std::ifstream(std::string(source_dir()) + "/scenarios/devices.yaml").rdbuf();
    const std::string devices = std::move(text).str();
    std::istringstream fitted(find_entry(fits(), "fit", "collectives").fit(data.string(), {}));
    for (std::string line; std::getline(fitted, line);)
      CHECK_MESSAGE(devices.find(line + "\n") != std::string::npos, line);
  }

  TEST_CASE("all-reduces are as near to what was measured as the README says") {
    const std::filesystem::path data = testing::published_data();
    const std::vector<std::string> blocks{"allreduce_a100", "allreduce_v100", "nccl_unfitted"};
    const auto scores = score_published(data.string(), blocks).scores;
    REQUIRE(scores.size() == 3);
    CHECK(scores[0].errors.median < 0.013);
    CHECK(scores[0].errors.mean < 0.017);
    CHECK(scores[1].errors.median < 0.003);
    CHECK(scores[2].errors.median < 0.13);
    CHECK(scores[2].errors.rows == 107);
  }
}
