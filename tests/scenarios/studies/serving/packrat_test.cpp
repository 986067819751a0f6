#include "scenarios/studies/serving/packrat.h"

#include "sim/random.h"
#include "tests/prelude.h"

namespace {

using namespace baechi::serving;

constexpr Duration never = Duration::max();

/// Least latency over all multisets of entries, by enumeration.
Duration tried(const LatencyTable& table, LatencyTable::const_iterator from, std::int64_t threads,
               std::int64_t batch, Duration slowest) {
  if (batch == 0) return slowest;
  Duration best = never;
  for (auto entry = from; entry != table.end(); ++entry)
    if (entry->first.first <= threads && entry->first.second <= batch)
      best = std::min(best, tried(table, entry, threads - entry->first.first,
                                  batch - entry->first.second, std::max(slowest, entry->second)));
  return best;
}

}  // namespace

TEST_SUITE_BEGIN("packrat");
TEST_CASE("two instances of half the threads: the fewest of equally fast configurations") {
  using I = ServingPlan::Instances;
  const LatencyTable table{{{1, 1}, Duration{6}}, {{2, 2}, Duration{6}}, {{4, 4}, Duration{9}}};
  // (2, 2) twice takes 6, as (1, 1) four times does.
  const auto best = best_serving(table, 4, 4);
  REQUIRE(best);
  CHECK(best->latency == Duration{6});
  CHECK(best->instances == std::vector<I>{{2, 2, 2}});
  // 6 x 2 is more than 9: a single instance has no interference.
  CHECK(best_serving(table, 4, 4, 2.0)->instances == std::vector<I>{{1, 4, 4}});
  CHECK_FALSE(best_serving(table, 1, 2));
}

TEST_CASE("best_serving() finds the best configuration, on 200 random tables") {
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    LatencyTable table;
    const std::int64_t threads = 1 + random.below(5), batch = 1 + random.below(16);
    for (std::int64_t t = 1; t <= threads; ++t)
      for (std::int64_t b = 1; b <= batch; b *= 2)
        if (random.below(4) > 0) table[{t, b}] = Duration{1 + random.below(30)};
    const auto best = best_serving(table, threads, batch);
    const Duration least = tried(table, table.begin(), threads, batch, Duration{});
    CHECK((best ? best->latency : never) == least);
    if (!best) continue;
    std::int64_t threads_used = 0, served = 0;
    for (const auto& [count, t, b] : best->instances) {
      threads_used += count * t;
      served += count * b;
      CHECK(table.at({t, b}) <= least);
    }
    CHECK(threads_used <= threads);
    CHECK(served == batch);
  }
}

TEST_CASE("configurations of a range have the batches of the profiles") {
  const baechi::testing::TemporaryFolder folder;
  folder.write("l.csv", "model,threads,batch,mean_ms\na,1,1,6\na,2,2,9\na,2,8,20\nb,1,4,5\n");
  const auto all = configurations(
      {.file = folder.file("l.csv"), .threads = "2", .batch = "1..4", .where = {"model=a"}});
  REQUIRE(all.size() == 1);
  REQUIRE(all[0].batches.size() == 2);  // 1 and 2: 8 is out of the range, 4 is of model b
  CHECK_FALSE(all[0].batches[0].one_instance);
  CHECK(all[0].batches[1].one_instance == Duration{9'000'000});
  // Two instances of one thread and batch 1 take 6 ms, one of two threads 9 ms: 1.5 x.
  CHECK(all[0].batches[1].speed_up() == 1.5);
  CHECK(all[0].mean_speed_up() == 1.5);
}
