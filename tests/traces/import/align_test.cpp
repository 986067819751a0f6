#include "sim/engine/simulation.h"
#include "sim/random.h"
#include "tests/prelude.h"
#include "tests/traces/import/imported.h"
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

TEST_SUITE_BEGIN("align");
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
  CHECK(found("a", std::string(64, 'a'), 0).starts_with(" 0;"));  // at most the last 64
  CHECK(found("a", std::string(65, 'a'), 0).starts_with(" 1;"));
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

// Formulas for the work of calls in PyTorch's execution traces.

namespace {

/// "8x6 -": a matrix, and a tensor of unknown shape.
std::vector<Argument> tensors_of(std::string_view text) {
  std::vector<Argument> all;
  for (const auto word : parts(text, ' ')) {
    TensorView t;
    t.storage = 1;
    t.elements = word == "-" ? 0 : 1;
    t.element_bytes = 4;
    for (const auto side : parts(word == "-" ? "" : word, 'x')) {
      t.shape.push_back(parse_number<std::int64_t>(side).value());
      t.elements *= t.shape.back();
    }
    all.push_back({.name = "", .tensors = {t}});
  }
  return all;
}

}  // namespace

TEST_SUITE_BEGIN("pytorch formulas");
TEST_CASE("work by formula: matmuls, convolutions, attention, recurrent layers, precision") {
  const std::string rows = read_file(source_dir() + "/tests/traces/import/pytorch_work.txt");
  for (const auto line : parts(rows, '\n')) {
    CAPTURE(line);
    if (line.starts_with('#')) continue;
    const auto columns = parts(line, '|');
    Call call;
    call.name = columns[0].substr(0, columns[0].find(' '));
    call.inputs = tensors_of(columns[1]);
    call.outputs = tensors_of(columns[2]);
    const OpWork work = work_of(call, Precision::tf32);
    CHECK(fmt::format(" {}", work.flops) == columns[3]);
    CHECK(work.precision == (call.name.starts_with("conv") ? Precision::tf32 : Precision::fp32));
  }
}

TEST_CASE("tensors of values, and the arguments of a schema") {
  const auto number = [](std::int64_t n) {
    return Value{.number = n, .is_number = true, .text = {}, .items = {}};
  };
  const auto list = [](std::vector<Value> items) {
    return Value{.text = {}, .is_list = true, .items = std::move(items)};
  };
  const Value view = list(std::vector<Value>(5, number(2))),
              cut = list(std::vector<Value>(4, number(2)));
  Value undefined = view;
  undefined.items[1] = number(0);
  for (const auto& [type, value, precisions] :
       {std::tuple{"Tensor(c10::Half)", view, std::vector{Precision::fp16}},
        {"Tensor(c10::BFloat16)", view, {Precision::bf16}},
        {"Tensor(c10::Float8_e4m3fn)", view, {Precision::fp8}},
        {"Tensor(float)", view, {Precision::fp32}},
        {"Tensor(float)", cut, {}},
        {"Tensor(float)", undefined, {}},
        {"Int", view, {}},
        {"GenericList[Tensor(float),Tensor(c10::Half)]",
         list({view, view}),
         {Precision::fp32, Precision::fp16}},
        {"GenericList[Tensor(float)", list({view}), {}},
        {"List[Tensor(float)]", list({view}), {}}}) {
    CAPTURE(type);
    std::vector<Argument> found;
    fill({.values = {value}, .shapes = {}, .types = {type}}, found);
    REQUIRE(found.size() == 1);
    CHECK(found[0].list == (precisions.size() == 2));
    std::vector<Precision> all;
    for (const TensorView& t : found[0].tensors) all.push_back(t.precision);
    CHECK(all == precisions);
  }
  const auto names = [](std::string_view schema) {
    std::string text;
    for (const Argument& a : arguments_of(schema)) text += a.name + (a.mutated ? "! " : " ");
    return text;
  };
  CHECK(names("aten::f(Tensor a, int[2] b=[1, 2], *, Tensor(a!) out) -> (Tensor, Tensor)") ==
        "a b out! ");
  CHECK(names("aten::f() -> Tensor").empty());
  for (const char* none :
       {"", "aten::f(Tensor a)", "aten::f -> Tensor", " -> f(Tensor a)", "aten::f( -> Tensor"})
    CHECK(names(none).empty());
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

TEST_SUITE_BEGIN("recordings");
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
