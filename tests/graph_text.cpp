#include "tests/graph_text.h"

#include <sstream>

#include "traces/format/trace_file.h"

namespace baechi::testing {
namespace {

/// "12", or "12k", "12M", "12G" in thousands, millions, 10^9.
std::int64_t number_of(const std::string& text) {
  std::size_t end = 0;
  const std::int64_t number = std::stoll(text, &end);
  const std::size_t unit = std::string_view("kMG").find(text.substr(end));
  if (end == text.size()) return number;
  if (end + 1 != text.size() || unit == std::string_view::npos)
    throw std::invalid_argument("'" + text + "': a number");
  return number * (unit == 0 ? 1'000 : unit == 1 ? 1'000'000 : 1'000'000'000);
}

/// "ab12" or "ab=12" as "ab" and 12; -1 where there are no digits.
std::pair<std::string, std::int64_t> name_and_number(const std::string& word) {
  if (const std::size_t equals = word.find('='); equals != std::string::npos)
    return {word.substr(0, equals), number_of(word.substr(equals + 1))};
  const std::size_t digits = word.find_first_of("0123456789");
  if (digits == std::string::npos) return {word, -1};
  return {word.substr(0, digits), number_of(word.substr(digits))};
}

class GraphText {
 public:
  OpGraph read(std::string_view text) {
    std::istringstream chains{std::string(text)};
    for (std::string chain; std::getline(chains, chain, ';');) read_chain(chain);
    for (const auto& [text, collective] : collectives_)
      builder_.add_collective(collective.first, collective.second);
    return std::move(builder_).build();
  }

 private:
  void read_chain(const std::string& chain) {
    std::istringstream words(chain);
    std::string word, arrow;
    if (!(words >> word)) return;
    OpId from = op(word);
    while (words >> arrow) {
      if ((arrow.front() != '-' && arrow != "~>") || arrow.back() != '>' || !(words >> word))
        throw std::invalid_argument("'" + arrow +
                                    "' is not an arrow such as -100> with an op behind");
      std::optional<TensorId> t;
      if (arrow != "~>") t = tensor(from, arrow);
      if (word == ".") break;
      const OpId to = op(word);
      if (t)
        builder_.add_edge(*t, to);
      else
        builder_.add_control(from, to);
      from = to;
    }
  }

  OpId op(const std::string& word) {
    std::istringstream parts(word);
    std::string first;
    std::getline(parts, first, ',');
    if (ops_.contains(first)) return ops_.at(first);
    const auto [name, time] = name_and_number(first);
    if (ops_.contains(name) || time < 0)
      throw std::invalid_argument("'" + word + "': an op has a time where it is first named, only");
    OpSpec spec{.name = name, .compute = Duration(time)};
    std::optional<OpId> forward;
    std::string group, kind, module, collective, lane = "compute";
    OpWork work;
    std::vector<std::pair<std::string, std::int64_t>> times;
    for (std::string part; std::getline(parts, part, ',');) {
      if (part.front() == 'w')
        spec.persistent = {number_of(part.substr(1))};
      else if (part.front() == 't')
        spec.temporary = {number_of(part.substr(1))};
      else if (part.starts_with("c:"))
        group = part.substr(2);
      else if (part.starts_with("k:"))
        kind = part.substr(2);
      else if (part.starts_with("x:"))
        collective = part.substr(2);
      else if (part.starts_with("i:"))
        module = part.substr(2);
      else if (part.starts_with("l:"))
        lane = part.substr(2);
      else if (part.front() == '@')
        times.push_back(name_and_number(part.substr(1)));
      else if (part.front() == 'f')
        work.flops = number_of(part.substr(1));
      else if (part.front() == 'm')
        work.traffic = {number_of(part.substr(1))};
      else
        spec.phase = part.front() == 'u' ? Phase::update : Phase::backward;
      if (part.starts_with("b:")) forward = ops_.at(part.substr(2));
    }
    spec.kind = kind;
    spec.lane = lane;
    spec.module = module;
    const OpId v = ops_[name] = builder_.add_op(spec);
    builder_.add_kernel(v, work);
    for (const auto& [type, time] : times) builder_.set_compute(v, type, Duration(time));
    if (forward) builder_.set_forward(v, *forward);
    if (!group.empty()) builder_.colocate(v, group);
    if (!collective.empty()) join(collective, v);
    return v;
  }

  /// `text`: kind, bytes, ranks and a label, separated by '/'.
  void join(const std::string& text, OpId member) {
    std::istringstream parts(text);
    std::string kind, bytes, ranks;
    std::getline(parts, kind, '/');
    std::getline(parts, bytes, '/');
    std::getline(parts, ranks, '/');
    auto& [collective, members] = collectives_[text];
    collective.kind = *parse<CollectiveKind>(kind);
    collective.bytes = {number_of(bytes)};
    if (!ranks.empty()) collective.ranks = static_cast<std::uint32_t>(std::stoul(ranks));
    members.push_back(member);
  }

  TensorId tensor(OpId from, const std::string& word) {
    const bool reference = word.starts_with("-&");
    const std::size_t begin = reference ? 2 : 1;
    const auto [name, size] = name_and_number(word.substr(begin, word.size() - begin - 1));
    const auto known = tensors_.find({from, name});
    if (!name.empty() && known != tensors_.end() && size < 0) return known->second;
    if (size < 0) throw std::invalid_argument("'" + word + "': a tensor without a size");
    return tensors_[{from, name}] = builder_.add_tensor(from, {size}, reference);
  }

  OpGraphBuilder builder_;
  std::map<std::string, OpId> ops_;
  std::map<std::string, std::pair<Collective, std::vector<OpId>>> collectives_;
  std::map<std::pair<OpId, std::string>, TensorId> tensors_;
};

}  // namespace

OpGraph graph_of(std::string_view text) { return GraphText().read(text); }

void write_graph(const std::string& path, std::string_view text, const std::string& name,
                 std::int64_t batch) {
  write_trace({.graph = graph_of(text), .name = name, .batch = batch}, path);
}

}  // namespace baechi::testing
