#include "sim/transform/training/data_parallel.h"

#include "sim/pipeline/pipeline.h"
#include "sim/transform/training/gradients.h"
#include "tests/prelude.h"
#include "tests/random_problems.h"
#include "tests/sim/transform/training/two_gradients.h"

TEST_SUITE_BEGIN("data_parallel");
TEST_CASE("each mode, by hand: two replicas, a bucket per gradient") {
  // f until 10, b1 until 30, b0 until 50. An all_reduce of 100 B over 2 ranks takes 2 x 50 ns.
  const Values each{{"bucket", "1 B"}, {"first_bucket", "1 B"}};
  const auto with = [&](const char* key, const char* value) {
    Values values = each;
    values[key] = value;
    return values;
  };
  // 30 to 130 and 130 to 230; then both updates, because an optimizer's step follows it all.
  for (const bool tensors : {true, false}) CHECK(replicas_trained(each, tensors).makespan == 240ns);
  // 200 B from 50 to 250, then both updates. So it is if one bucket takes both.
  CHECK(replicas_trained(with("mode", "after")).makespan == 260ns);
  CHECK(replicas_trained({}).makespan == 260ns);
  CHECK(replicas_trained({{"first_bucket", "1 B"}}).makespan == 240ns);
  // What is sent after the backward pass does not use buckets.
  CHECK(replicas_trained(with("send", "after")).makespan == 260ns);
  // 100 ns to the servers, from 30 and from 130, and 100 ns back, from 130 and from 230; u0 until
  // 335. One server for both replicas takes twice as long: 30 + 3 x 200 + 5.
  CHECK(replicas_trained(with("mode", "ps")).makespan == 335ns);
  Values one_server = with("mode", "ps");
  one_server["servers"] = "1";
  CHECK(replicas_trained(one_server).makespan == 635ns);
  // Scattered from 30 to 80 and to 130; half of each update (3 ns) until 136; 40 B of weights are
  // gathered in 20 ns. zero1 sends after the backward pass if nothing else is said: 200 B are
  // scattered from 50 to 150, updates until 156.
  for (const bool tensors : {true, false}) {
    CHECK(replicas_trained(with("mode", "zero2"), tensors).makespan == 156ns);
    CHECK(replicas_trained(with("mode", "zero1"), tensors).makespan == 176ns);
    Values beside = with("mode", "zero1");
    beside["send"] = "beside";
    CHECK(replicas_trained(beside, tensors).makespan == 156ns);
  }
  // 40 B of weights are gathered in 20 ns before f, from 20 to 40 for b1 and until 60 for b0: f
  // from 20 to 30, b1 from 40 to 60, b0 until 80. Scattered from 60 to 110 and to 160, updates
  // until 166; nothing is gathered at the end.
  CHECK(replicas_trained(with("mode", "zero3"), false).makespan == 166ns);
  // A tenth of the bytes: 10 ns in place of 100: from 30 to 40 and from 50 to 60.
  CHECK(replicas_trained(with("compress", "0.1")).makespan == 70ns);
  // Three ranks: 4 x 34 ns each.
  CHECK(replicas_trained(with("replicas", "3")).makespan == 30ns + 2 * 136ns + 10ns);
}

TEST_CASE("gradients are copied into buckets before they are sent, and back after") {
  // f 0-10, b1 10-30, b0 30-50. After: one bucket of 200 B, filled 50-150 at 2 B/ns, summed
  // 150-350, emptied 350-400 at 4 B/ns; two updates of 5 ns.
  CHECK(replicas_trained({{"mode", "after"}}).makespan == 260ns);
  const StepResult after =
      replicas_trained({{"mode", "after"}, {"fill", "2 GB/s"}, {"empty", "4 GB/s"}});
  CHECK(after.makespan == 410ns);
  // Two buckets of 100 B: filled 30-80, b0 80-100, filled 100-150; summed 80-180 and 180-280;
  // once all are sent emptied 280-305 and 305-330.
  const StepResult beside = replicas_trained({{"mode", "ddp"},
                                              {"bucket", "1 B"},
                                              {"first_bucket", "1 B"},
                                              {"fill", "2 GB/s"},
                                              {"empty", "4 GB/s"}});
  CHECK(beside.makespan == 340ns);
  // Buckets that overlap with the backward pass are persistent.
  const auto weights = [](const StepResult& r) {
    return r.devices[gpu0].at_peak[MemoryKind::weights];
  };
  CHECK(weights(beside) == weights(after) + 200_B);
}

// Each gradient of 100 B is a bucket; the 40 B of f's weights are gathered for f, and for b1 and
// b0.
TEST_CASE("gradients are moved before they are sent, and weights after they are gathered") {
  const auto moved = [](const Values& more) {
    Values values{{"replicas", "2"}, {"bucket", "1 B"}, {"first_bucket", "1 B"}};
    for (const auto& [key, value] : more) values[key] = value;
    const PlacedStep step = placed(two_gradients(), values);
    std::map<std::string, std::int64_t> bytes;
    for (const OpId v : step.graph.ops())
      if (step.graph.kind(v) == "Copy")
        bytes[std::string(step.graph.name(v))] = step.graph.work(v).traffic.count;
    return bytes;
  };
  using Moved = std::map<std::string, std::int64_t>;
  const Values zero3{{"mode", "zero3"}, {"before_sum", "4.5"}, {"after_gather", "2"}};
  CHECK(moved(zero3) == Moved{{"join/gradients0", 450},
                              {"join/gradients1", 450},
                              {"split/weights0", 80},
                              {"split/weights1", 80}});
  CHECK(moved({{"before_sum", "1.5"}}) ==
        Moved{{"join/gradients0", 150}, {"join/gradients1", 150}});
  CHECK(moved({{"mode", "zero3"}}).empty());
  CHECK_REFUSED(moved({{"mode", "zero2"}, {"after_gather", "2"}}),
                doctest::Contains("only zero3 gathers weights where they are read"));
}

TEST_CASE("copies into buckets are rejected if no bucket is filled") {
  const auto refused = [](const Values& values) {
    return message<InputError>([&] { transform("data_parallel", values); });
  };
  CHECK(holds(refused({{"mode", "zero2"}, {"fill", "1 GB/s"}}), "'fill' and 'empty' do not copy"));
  CHECK(holds(refused({{"compress", "0.5"}, {"empty", "1 GB/s"}}), "drop 'fill' and 'empty'"));
}

TEST_CASE("framework time per gradient delays the device, also with one replica") {
  // b1 until 30, its bucket until 37, b0 until 57, its bucket until 64; 100 ns from 37 and from
  // 137; both updates until 247. Alone: 10 + 2 x 20 + 2 x 7 + 2 x 5.
  Values values{{"bucket", "1 B"}, {"first_bucket", "1 B"}, {"per_gradient", "7 ns"}};
  CHECK(replicas_trained(values).makespan == 247ns);
  values["replicas"] = "1";
  CHECK(replicas_trained(values).makespan == 74ns);
  // One bucket of both takes 14 ns, from 50 on.
  CHECK(replicas_trained({{"per_gradient", "7 ns"}}).makespan == 50ns + 14ns + 200ns + 10ns);
}

TEST_CASE("replicas do not change the transfers between the devices of one") {
  const OpGraph graph = two_gradients();
  for (const auto& device :
       {on({gpu1, gpu0, gpu1, gpu0, gpu1}), on({gpu0, gpu1, gpu1, gpu1, gpu1})}) {
    const StepResult alone = replicas_step({graph, device.device}, gpus(2));
    const PlacedStep step = placed(graph, device.device, {{"replicas", "2"}, {"bucket", "1 B"}});
    CHECK(replicas_step(step, gpus(2)).moved == alone.moved);
  }
}

TEST_CASE("micro-batches accumulate one gradient, which is sent once it is complete") {
  // f and f@1 until 20, the four backward ops until 100. 200 B over 2 ranks until 300, u1 and u0.
  for (const bool tensors : {true, false}) {
    const OpGraph graph = apply("micro_batches", two_gradients(tensors), {{"count", "2"}}).graph;
    const IdVector<OpId, DeviceId> device(graph.num_ops(), gpu0);
    for (const char* mode : {"ddp", "after"}) {
      const PlacedStep step = placed(graph, device, {{"replicas", "2"}, {"mode", mode}});
      CHECK(replicas_step(step, gpus(1)).makespan == 310ns);
    }
  }
  // Where sizes are assumed, updates do not wait: u1 is before b0@1, which ends at 105. 1 x 40 B
  // over 2 ranks take 40 ns.
  const OpGraph graph = apply("micro_batches", two_gradients(false), {{"count", "2"}}).graph;
  const PlacedStep assumed = placed(graph, {{"replicas", "2"}, {"gradients", "1"}});
  CHECK(replicas_step(assumed, gpus(1)).makespan == 145ns);
}

TEST_CASE("an op called b@1 is no copy of b: each has a gradient of its own") {
  // 200 B over 2 ranks from 50 to 250, then the updates, as with other names.
  for (const bool tensors : {true, false}) {
    const OpGraph graph = two_gradients(tensors, {"b@1", "b"});
    const PlacedStep step = placed(graph, IdVector<OpId, DeviceId>(5, gpu0), {{"replicas", "2"}});
    CHECK(replicas_step(step, gpus(1)).makespan == 260ns);
  }
}

TEST_CASE("replicas of micro-batches have names of their own") {
  const OpGraph graph = apply("micro_batches", two_gradients(), {{"count", "2"}}).graph;
  const IdVector<OpId, DeviceId> device(graph.num_ops(), gpu0);
  const PlacedStep all = placed(graph, device, {{"replicas", "2"}, {"simulate", "all"}});
  CHECK(all.graph.find("f@1").has_value());
  CHECK(all.graph.find("f@@1").has_value());
  CHECK(all.graph.find("f@1@@1").has_value());
  CHECK(replicas_step(all, gpus(2)).makespan == 310ns);
}

TEST_CASE("buckets fill in the order of the backward pass, on each device by itself") {
  const auto sizes = [](const std::vector<std::int64_t>& bytes, Bytes first, Bytes limit) {
    std::vector<Gradient> gradients;
    IdVector<OpId, DeviceId> device;
    for (const std::int64_t n : bytes) {
      gradients.push_back({OpId{static_cast<std::uint32_t>(device.size())}, Bytes{n}, {}, {}});
      device.push_back(gpu0);
    }
    std::vector<std::int64_t> found;
    for (const Bucket& b : buckets_of(gradients, device, first, limit))
      found.push_back(b.bytes.count);
    return found;
  };
  using Sizes = std::vector<std::int64_t>;
  CHECK(sizes({3, 3, 3, 3, 3}, 1_B, 5_B) == Sizes{3, 6, 6});
  CHECK(sizes({3, 3, 3, 3, 3}, 4_B, 100_B) == Sizes{6, 9});
  CHECK(sizes({9, 1}, 4_B, 4_B) == Sizes{9, 1});
  // Two devices: each weight-holding device has collectives of its own.
  const OpGraph graph = two_gradients();
  const PlacedStep step =
      placed(graph, on({gpu0, gpu0, gpu1, gpu0, gpu1}).device, {{"replicas", "4"}});
  REQUIRE(step.graph.collectives().size() == 2);
  for (const Collective& c : step.graph.collectives()) {
    CHECK(c.bytes == 100_B);
    CHECK(c.ranks == 4);
    CHECK(c.members == 1);
  }
}

TEST_CASE("an update on another device receives the reduced gradient, not the local one") {
  //   b1 ends at 30; 2 x 100 ns of all_reduce, 100 ns of transfer, u1 5 ns
  const OpGraph graph = two_gradients();
  const PlacedStep step = placed(graph, on({gpu0, gpu0, gpu0, gpu1, gpu0}).device,
                                 {{"replicas", "2"}, {"bucket", "1 B"}, {"first_bucket", "1 B"}});
  const StepResult result = replicas_step(step, gpus(2));
  CHECK(result.moved == 100_B);
  CHECK(result.devices[gpu1].busy == 5ns);
  CHECK(result.makespan == 335ns);
}

TEST_CASE("impossible options are rejected by name") {
  const OpGraph none = one_tensor_two_readers();
  CHECK_REFUSED(apply("data_parallel", none),
                "data_parallel: no backward op passes gradients to an update op; 'gradients: 0.33' "
                "assumes this fraction of the weights' bytes");
  CHECK_REFUSED(
      apply("data_parallel", none, {{"gradients", "0.33"}}),
      "data_parallel: no backward op says which forward op with weights it differentiates");
  CHECK_REFUSED(
      transform("data_parallel", {{"nodes", "3"}}),
      "x.yaml:1:2: data_parallel.nodes: 8 replicas are not the same number on each of 3 machines");
  CHECK(message<InputError>(
            [] { transform("data_parallel", {{"mode", "after"}, {"send", "beside"}}); }) ==
        "x.yaml:1:2: data_parallel.send: mode after sends gradients after the backward pass; mode "
        "ddp overlaps the two");
  CHECK_REFUSED(transform("data_parallel", {{"gradients", "1e30"}}),
                "x.yaml:1:2: data_parallel.gradients: '1e30' is not a number from 0 to 1000");
  // Updates of a share would get whole master weights.
  CHECK(transform("data_parallel", {{"mode", "zero1"}})->must_follow("precision"));
  CHECK(!transform("data_parallel", {{"mode", "zero3"}})->must_follow("precision"));
  CHECK(!transform("data_parallel", {{"mode", "zero1"}})->must_follow("recompute"));
  const OpGraph one_kind = graph_of("f10,w300 -0> g20,b:f");
  CHECK(message<InputError>([&] {
          apply("data_parallel", one_kind, {{"gradients", "0.33"}, {"mode", "zero1"}});
        }).starts_with("data_parallel: mode zero1 shards optimizer state"));
  // A third of 300 B over 2 ranks: 2 x 50 ns (99 B rounded up) after 30 ns.
  const PlacedStep step =
      placed(one_kind, on({gpu0, gpu0}).device, {{"replicas", "2"}, {"gradients", "0.33"}});
  CHECK(replicas_step(step, gpus(1)).makespan == 130ns);
}

TEST_CASE("one replica that represents all takes as long as all, to the nanosecond") {
  std::size_t compared = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const OpGraph graph = training_graph(2 + random.below(15), random);
    if (gradients_of(graph).empty()) continue;
    const std::uint32_t devices = 1 + random.below(3), replicas = 2 + random.below(3);
    IdVector<OpId, DeviceId> device;
    for (const OpId v : graph.ops())
      device.push_back(index(v) == 0 ? DeviceId{devices - 1} : DeviceId{random.below(devices)});
    Values values{{"replicas", std::to_string(replicas)},
                  {"bucket", fmt::format("{} B", 1 + random.below(200))},
                  {"first_bucket", fmt::format("{} B", 1 + random.below(100))}};
    for (const Synchronisation mode : all<Synchronisation>()) {
      CAPTURE(to_text(mode));
      if (mode >= Synchronisation::zero1 && !tells_apart(graph)) continue;
      values["mode"] = to_text(mode);
      values["simulate"] = "one";
      const PlacedStep one = placed(graph, device, values);
      values["simulate"] = "all";
      const PlacedStep every = placed(graph, device, values);
      CHECK(every.graph.num_ops() == replicas * one.graph.num_ops());
      const auto engines = all_engines();
      const EngineOptions engine =
          engines[random.below(static_cast<std::uint32_t>(engines.size()))];
      if (engine.transfers == Transfers::shared) continue;  // one bus for all replicas
      const StepResult a = replicas_step(one, gpus(devices), engine);
      const StepResult b = replicas_step(every, gpus(replicas * devices), engine);
      ++compared;
      CHECK(a.makespan == b.makespan);
      for (const DeviceId d : b.devices.ids()) {
        const DeviceUse& same = a.devices[DeviceId{static_cast<std::uint32_t>(index(d)) % devices}];
        CHECK(b.devices[d].busy == same.busy);
        CHECK(b.devices[d].peak == same.peak);
      }
    }
  }
  CHECK(compared > 300);
}

TEST_CASE("in a pipeline the stages synchronise once, after the last micro-batch") {
  //   Two devices in a line: f0 -> f1 -> b1 -> b0, 10 ns each, no bytes between them, 100 B of
  //   gradient each. gpipe with 2 micro-batches: f0 0-20, f1 10-30, b1 30-50, b0 40-60; then
  //   gpu1 adds up from 50 to 150, gpu0 from 60 to 160.
  const OpGraph graph = graph_of(
      "f0=10 -0> f1=10 -0> b1=10,w100,b:f1 -0> b0=10,w100,b:f0; b1 ~> u1=0,u; b0 ~> u0=0,u");
  IdVector<OpId, DeviceId> device;
  for (const OpId v : graph.ops()) device.push_back(graph.name(v).ends_with('0') ? gpu0 : gpu1);
  const PlacedStep step = placed(graph, device, {{"replicas", "2"}});
  const Cluster cluster = gpus(2);
  const ProfiledCosts costs(step.graph, cluster);
  Placement placement;
  placement.device = step.device;
  const auto result = pipeline::simulate_pipeline({step.graph, cluster, costs}, placement,
                                                  {.schedule = "gpipe", .micro_batches = 2});
  CHECK(result.makespan == 160ns);
  // All replicas would be stages of one pipeline.
  const PlacedStep all = placed(graph, device, {{"replicas", "2"}, {"simulate", "all"}});
  const Cluster four = gpus(4);
  const ProfiledCosts all_costs(all.graph, four);
  placement.device = all.device;
  CHECK(message<InputError>([&] {
          pipeline::simulate_pipeline({all.graph, four, all_costs}, placement,
                                      {.schedule = "gpipe", .micro_batches = 2});
        }).ends_with("joins several stages"));
}
