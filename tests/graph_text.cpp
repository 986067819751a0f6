#include "tests/graph_text.h"

#include <map>
#include <sstream>
#include <stdexcept>

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
      if (arrow.size() < 3 || arrow.front() != '-' || arrow.back() != '>' || !(words >> word))
        throw std::invalid_argument("'" + arrow +
                                    "' is not an arrow such as -100> with an op behind");
      const TensorId t = tensor(from, arrow.substr(1, arrow.size() - 2));
      const OpId to = op(word);
      builder_.add_edge(t, to);
      from = to;
    }
  }

  OpId op(const std::string& word) {
    const auto [name, time] = name_and_number(word);
    const auto known = ops_.find(name);
    if ((known == ops_.end()) == (time < 0))
      throw std::invalid_argument("'" + word + "': an op has a time where it is first named, only");
    if (known != ops_.end()) return known->second;
    return ops_[name] = builder_.add_op({.name = name, .compute = Duration(time)});
  }

  TensorId tensor(OpId from, const std::string& word) {
    const auto [name, size] = name_and_number(word);
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
