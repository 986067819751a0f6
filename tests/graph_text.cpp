#include "tests/graph_text.h"

#include <map>
#include <sstream>
#include <stdexcept>
#include <tuple>

namespace baechi::testing {
namespace {

/// "ab12" as "ab" and 12; -1 where there are no digits.
std::pair<std::string, std::int64_t> name_and_number(const std::string& word) {
  const std::size_t digits = word.find_first_of("0123456789");
  if (digits == std::string::npos) return {word, -1};
  if (word.find_first_not_of("0123456789", digits) != std::string::npos)
    throw std::invalid_argument("'" + word + "': a name, then a number");
  return {word.substr(0, digits), std::stoll(word.substr(digits))};
}

class GraphText {
 public:
  OpGraph read(std::string_view text) {
    std::istringstream chains{std::string(text)};
    for (std::string chain; std::getline(chains, chain, ';');) read_chain(chain);
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
    std::string name;
    std::int64_t time = -1;
    if (const std::size_t equals = first.find('='); equals != std::string::npos) {
      name = first.substr(0, equals);
      time = std::stoll(first.substr(equals + 1));
    } else {
      std::tie(name, time) = name_and_number(first);
    }
    if (ops_.contains(name) || time < 0)
      throw std::invalid_argument("'" + word + "': an op has a time where it is first named, only");
    OpSpec spec{.name = name, .compute = Duration(time)};
    std::optional<OpId> forward;
    std::string group;
    for (std::string part; std::getline(parts, part, ',');) {
      if (part.front() == 'w')
        spec.persistent = {std::stoll(part.substr(1))};
      else if (part.front() == 't')
        spec.temporary = {std::stoll(part.substr(1))};
      else if (part.starts_with("c:"))
        group = part.substr(2);
      else
        spec.phase = part.front() == 'u' ? Phase::update : Phase::backward;
      if (part.starts_with("b:")) forward = ops_.at(part.substr(2));
    }
    const OpId v = ops_[name] = builder_.add_op(spec);
    if (forward) builder_.set_forward(v, *forward);
    if (!group.empty()) builder_.colocate(v, group);
    return v;
  }

  TensorId tensor(OpId from, const std::string& word) {
    const auto [name, size] = name_and_number(word.substr(1, word.size() - 2));
    const auto known = tensors_.find({from, name});
    if (!name.empty() && known != tensors_.end() && size < 0) return known->second;
    if (size < 0) throw std::invalid_argument("'" + word + "': a tensor without a size");
    return tensors_[{from, name}] = builder_.add_tensor(from, {size});
  }

  OpGraphBuilder builder_;
  std::map<std::string, OpId> ops_;
  std::map<std::pair<OpId, std::string>, TensorId> tensors_;
};

}  // namespace

OpGraph graph_of(std::string_view text) { return GraphText().read(text); }

}  // namespace baechi::testing
