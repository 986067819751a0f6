#include "sim/engine/simulation.h"
#include "sim/random.h"
#include "tests/prelude.h"
#include "tests/traces/import/recordings.h"

using namespace baechi::pytorch;

namespace {

std::vector<std::uint32_t> letters(const std::string& text) { return {text.begin(), text.end()}; }

/// The positions of the calls, "-" for a gap: "0 1 - 3"; alignments are separated by "; ".
std::string found(const std::string& calls, const std::string& events, std::size_t most_gaps) {
  std::string text;
  for (const Alignment& place : align(letters(calls), letters(events), most_gaps)) {
    text += text.empty() ? "" : ";";
    for (const auto& at : place) text += at ? " " + std::to_string(*at) : " -";
  }
  return text;
}

/// The fewest gaps, by dynamic programming.
std::size_t fewest_gaps(const std::vector<std::uint32_t>& calls,
                        const std::vector<std::uint32_t>& events) {
  std::vector<std::size_t> row(events.size() + 1, 0);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    std::vector<std::size_t> next{i + 1};
    for (std::size_t j = 0; j < events.size(); ++j) {
      std::size_t gaps = std::min(row[j + 1], next[j]) + 1;
      if (calls[i] == events[j]) gaps = std::min(gaps, row[j]);
      next.push_back(gaps);
    }
    row = std::move(next);
  }
  return *std::ranges::min_element(row);
}

}  // namespace

TEST_SUITE("align") {
  TEST_CASE("a sequence is found in a longer one with and without gaps") {
    CHECK(found("abc", "xxabcxx", 0) == " 2 3 4");
    CHECK(found("abc", "abcxabc", 0) == " 0 1 2; 4 5 6");  // all alignments with the fewest gaps
    CHECK(found("abc", "xabxcx", 0).empty());
    CHECK(found("abc", "xabxcx", 1) == " 1 2 4");           // an event without a call
    CHECK(found("abcd", "xacdx", 1) == " 1 - 2 3");         // a call without an event
    CHECK(found("abcdef", "abxdef", 2) == " 0 1 - 3 4 5");  // one of each
    CHECK(found("abcdef", "abxdef", 1).empty());
    CHECK(found("", "abc", 1).empty());
    CHECK(found("ab", "", 1).empty());
  }

  // Stream 7 [20-170], of which 50 us are cut; stream 8 and work without a stream overlap freely.
  TEST_CASE("a kernel takes no time beyond the start of the next one of its stream") {
    const auto work = [](int start, int duration, const std::string& arguments) {
      return fmt::format(R"({{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7,
        "ts": {}, "dur": {}, "args": {{{}}}}})",
                         start, duration, arguments);
    };
    TextFile file("x.json",
                  fmt::format(R"({{"traceEvents": [{}, {}, {}, {}, {}]}})",
                              work(20, 150, R"("stream": 7)"), work(120, 100, R"("stream": 7)"),
                              work(30, 200, R"("stream": 8)"), work(20, 10, ""), work(21, 10, "")));
    const Kineto read = read_kineto(file);
    CHECK(read.overruns == 1);
    CHECK(read.cut == Duration{50'000});
    CHECK(read.device_time == Duration{420'000});  // 100 + 100 + 200 + 10 + 10
  }

  TEST_CASE("random sequences: alignments have the fewest gaps") {
    Random random(1);
    for (int run = 0; run < 2000; ++run) {
      CAPTURE(run);
      const auto text = [&](std::size_t most) {
        std::vector<std::uint32_t> names(random.below(static_cast<std::uint32_t>(most)));
        const auto letters = static_cast<std::uint32_t>(1 + random.below(4));
        for (auto& name : names) name = static_cast<std::uint32_t>(random.below(letters));
        return names;
      };
      std::vector<std::uint32_t> calls = text(12);
      calls.push_back(0);
      const auto events = text(15);
      const std::size_t fewest = fewest_gaps(calls, events), most = random.below(14);
      const auto places = align(calls, events, most);
      CHECK(places.empty() == (fewest > most));
      for (const Alignment& place : places) {
        std::vector<std::size_t> at;
        for (std::size_t i = 0; i < place.size(); ++i)
          if (place[i]) {
            CHECK(calls[i] == events[*place[i]]);
            at.push_back(*place[i]);
          }
        CHECK(std::ranges::is_sorted(at, std::less_equal<>{}));
        const std::size_t inside = at.empty() ? 0 : at.back() - at.front() + 1;
        CHECK(calls.size() - at.size() + inside - at.size() <= fewest);
      }
    }
  }
}

// Formulas for the work of calls in PyTorch's execution traces.

namespace {

TensorView tensor(std::int64_t storage, std::vector<std::int64_t> shape) {
  TensorView t{.storage = storage, .elements = 1, .element_bytes = 4, .shape = std::move(shape)};
  for (const std::int64_t side : t.shape) t.elements *= side;
  return t;
}
OpWork work_by_formula(const std::string& name, const std::vector<TensorView>& in,
                       const std::vector<TensorView>& out) {
  Call call;
  call.name = name;
  for (const auto* all : {&in, &out})
    for (const TensorView& t : *all)
      (all == &in ? call.inputs : call.outputs).push_back({.name = "", .tensors = {t}});
  return work_of(call, Precision::tf32);
}

}  // namespace

TEST_SUITE("pytorch formulas") {
  TEST_CASE("work by formula: transposed convolutions, attention, recurrent layers, precision") {
    // 6 channels of 5 x 5 to 4 of 10 x 10, 3 x 3, stride 2: each input element is multiplied with 4
    // x 3 x 3 weights.
    const auto x = tensor(1, {8, 6, 5, 5}), w = tensor(2, {6, 4, 3, 3}),
               y = tensor(3, {8, 4, 10, 10});
    CHECK(work_by_formula("convolution", {x, w}, {y}).flops == 2 * 8 * 6 * 5 * 5 * 4 * 3 * 3);
    CHECK(work_by_formula("convolution_backward", {y, x, w}, {x, w}).flops ==
          2 * 2 * 8 * 6 * 5 * 5 * 4 * 3 * 3);
    CHECK(work_by_formula("convolution", {x, w}, {y}).precision == Precision::tf32);
    CHECK(work_by_formula("mm", {tensor(1, {8, 6}), tensor(2, {6, 4})}, {tensor(3, {8, 4})})
              .precision == Precision::fp32);
    // The reverse is a convolution of stride 2.
    CHECK(work_by_formula("convolution", {y, w}, {x}).flops == 2 * 8 * 6 * 5 * 5 * 4 * 3 * 3);
    // 2 x 8 heads of 5 queries, 7 keys, width 16: two matmuls, and five.
    const auto q = tensor(4, {2, 8, 5, 16}), k = tensor(5, {2, 8, 7, 16});
    const char* fused = "_scaled_dot_product_flash_attention";
    CHECK(work_by_formula(fused, {q, k, k}, {q}).flops == 2 * 2 * (2 * 8 * 5 * 7 * 16));
    CHECK(work_by_formula("_scaled_dot_product_flash_attention_backward", {q, q, k, k}, {q, k, k})
              .flops == 5 * 2 * (2 * 8 * 5 * 7 * 16));
    // The same with length before heads.
    const auto q2 = tensor(6, {2, 5, 8, 16}), k2 = tensor(7, {2, 7, 8, 16});
    CHECK(work_by_formula("_flash_attention_forward", {q2, k2, k2}, {q2}).flops ==
          2 * 2 * (2 * 8 * 5 * 7 * 16));
    // A GRU of 5: matrices of 15 x 6 and 15 x 5, for 4 steps of 2.
    const auto steps = tensor(8, {4, 2, 6}), in = tensor(9, {15, 6}), back = tensor(10, {15, 5});
    CHECK(work_by_formula("gru", {steps, in, back}, {steps}).flops ==
          2 * 4 * 2 * (15 * 6 + 15 * 5));
    const auto gates = tensor(11, {2, 20});
    CHECK(work_by_formula("_thnn_fused_lstm_cell", {gates, gates}, {gates}).flops == 40);
    const Value five{.number = 2, .is_number = true, .text = {}, .items = {}};
    const Value view{.text = {}, .is_list = true, .items = {five, five, five, five, five}};
    for (const auto& [type, precision] : {std::pair{"Tensor(c10::Half)", Precision::fp16},
                                          {"Tensor(c10::BFloat16)", Precision::bf16},
                                          {"Tensor(c10::Float8_e4m3fn)", Precision::fp8},
                                          {"Tensor(float)", Precision::fp32}}) {
      std::vector<Argument> found;
      fill({.values = {view}, .shapes = {}, .types = {type}}, found);
      REQUIRE(found.size() == 1);
      REQUIRE(found[0].tensors.size() == 1);
      CHECK(found[0].tensors[0].precision == precision);
    }
  }
}

// The simulated memory of a recorded step against the recorded allocations.

namespace {

/// The peak of a step on one device, minus memory from before the step: weights, state and inputs.
std::int64_t simulated_peak(const OpGraph& graph, ReadyOrder queue) {
  const Cluster cluster = Cluster::uniform(1, Bytes{std::int64_t{1} << 50}, {.bandwidth = {1e9}});
  const ProfiledCosts costs(graph, cluster);
  const Placement placement{.device = IdVector<OpId, DeviceId>(graph.num_ops(), DeviceId{0})};
  const StepResult step = simulate({graph, cluster, costs, {.queue = queue}}, placement);
  std::int64_t before = 0;
  for (const OpId v : graph.ops()) before += graph.op(v).persistent.count;
  return step.devices[DeviceId{0}].peak.count - before;
}

std::int64_t input_bytes(const OpGraph& graph) {
  std::int64_t bytes = 0;
  for (const TensorId t : graph.tensors())
    if (graph.kind(graph.tensor(t).producer) == "input") bytes += graph.tensor(t).size.count;
  return bytes;
}

}  // namespace

TEST_SUITE("recordings") {
  // Inputs were allocated before the recording. Those live at the peak are added to the recorded
  // curve.
  TEST_CASE("a recorded step needs the memory that its allocator allocated, within 1 %") {
    const auto data = shared_data("traces");
    if (!data) return;
    for (const char* model : {"resnet50", "gnmt_small", "transformer_small"}) {
      CAPTURE(model);
      const std::string path = (*data / "traces" / "recorded" / model).string();
      const auto raw = events_of(read_file(path + ".events.jsonl.zst"));
      const std::string times = kineto_of_events(raw);
      TextFile kineto("k", times);
      const Trace trace = imported(path + ".eg.json.zst", &kineto);
      const auto recorded = static_cast<double>(recorded_peak(raw));
      for (const ReadyOrder queue : {ReadyOrder::fifo, ReadyOrder::program}) {
        const auto peak = static_cast<double>(simulated_peak(trace.graph, queue));
        CHECK(peak >= 0.99 * recorded);
        CHECK(peak <= 1.01 * recorded + static_cast<double>(input_bytes(trace.graph)));
      }
    }
  }
}
