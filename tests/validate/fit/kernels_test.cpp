#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "sim/find_entry.h"
#include "tests/temporary_folder.h"
#include "validate/fit/fit.h"
#include "validate/fit/kernel_numbers.h"

using namespace baechi;
using namespace baechi::validate;
using namespace baechi::testing;

namespace {

}  // namespace

TEST_SUITE("kernels") {
  TEST_CASE("the search finds the numbers that made the rows") {
    const DeviceRates rates{.flops = 1e9, .bytes = 3e6, .processors = 100};
    ProductNumbers truth = first_numbers<ProductNumbers>("bf16", false);
    truth.efficiency = 0.6;
    truth.launch = 4.0;
    truth.bandwidth = 0.5;
    std::vector<KernelRow<ProductNumbers>> rows;
    for (const std::int64_t m : {16, 128, 1024, 8192})
      for (const std::int64_t n : {64, 512, 4096})
        for (const std::int64_t k : {128, 1024, 8192}) {
          const MatrixShape shape{MatrixKind::product, 1, m, n, k};
          const auto traffic = static_cast<double>(2 * (m * k + k * n + m * n));
          rows.push_back(
              {rates, shape, traffic, product_us(truth, rates, shape, traffic), product_us});
        }
    const auto fitted =
        fitted_numbers<ProductNumbers>(rows, first_numbers<ProductNumbers>("bf16", false));
    CHECK(fitted.efficiency == doctest::Approx(0.6).epsilon(0.05));
    double mean = 0.0;
    for (const auto& row : rows)
      mean += std::abs(row.error(fitted)) / static_cast<double>(rows.size());
    CHECK(mean < 0.02);
  }

  TEST_CASE("a collective between fewer and more ranks takes a time between theirs") {
    const TemporaryFolder folder;
    std::filesystem::create_directories(folder.file("measured/aiconfigurator"));
    // 10 and 25 us on 2 and 8 ranks: on 4 ranks 10 + 15 / 3. No row has twice the bytes:
    // they take twice as long. What they take more is that of 3/4 of the bytes between those of
    // 1/2 and 7/8: 10 + 15 x 2 / 3.
    folder.write("measured/aiconfigurator/nccl.csv",
                 "system,op,gpus,bytes,ms\n"
                 "a100_sxm,all_gather,2,512,0.010\n"
                 "a100_sxm,all_gather,8,512,0.025\n");
    const std::string text =
        find_entry(fits(), "fit", "collective_tables").fit(folder.file(""), {});
    CHECK(text.find("\n         4: [15, 35, 75, ") != std::string::npos);
    // A reduce_scatter of 4 takes 18 us, 1.2 times what it would between those of 2 and 8: so does
    // the all_gather, 1.2 x 30 us. Each byte of an all_to_all takes as long with 4 ranks as with
    // 8: 28 x (3 / 4) / (7 / 8).
    folder.write("measured/aiconfigurator/nccl.csv",
                 "system,op,gpus,bytes,ms\n"
                 "a100_sxm,all_gather,2,512,0.020\n"
                 "a100_sxm,all_gather,8,512,0.050\n"
                 "a100_sxm,reduce_scatter,2,512,0.010\n"
                 "a100_sxm,reduce_scatter,4,512,0.018\n"
                 "a100_sxm,reduce_scatter,8,512,0.025\n"
                 "a100_sxm,alltoall,8,512,0.028\n");
    const std::string more =
        find_entry(fits(), "fit", "collective_tables").fit(folder.file(""), {});
    CHECK(more.find("\n         4: [36, 72, 144, ") != std::string::npos);
    CHECK(more.find("\n         4: [24, 48, 96, ") != std::string::npos);
  }

  TEST_CASE("few rows move the numbers little") {
    // One row says nothing of most numbers: those stay where they begin.
    const DeviceRates rates{.flops = 1e9, .bytes = 3e6, .processors = 100};
    const ProductNumbers start = first_numbers<ProductNumbers>("bf16", false);
    const MatrixShape shape{MatrixKind::product, 1, 4096, 4096, 4096};
    const std::vector<KernelRow<ProductNumbers>> rows{{rates, shape, 1e8, 400.0, product_us}};
    CHECK(fitted_numbers<ProductNumbers>(rows, start).split == doctest::Approx(start.split));
  }
}
