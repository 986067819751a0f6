#include "scenarios/read/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>

#include "scenarios/read/tree.h"

namespace baechi {
namespace {

constexpr std::size_t most_bytes = std::size_t{1} << 20U;
constexpr std::size_t most_scalars = 100'000;
constexpr std::size_t most_levels = 100;

std::size_t count_levels(const Options::Value& value) {
  std::size_t deepest = 0;
  for (const auto& [key, child] : value.children) deepest = std::max(deepest, count_levels(child));
  return deepest + 1;
}

/// Builds the tree from the parser's events. YAML::Node is not used because it shares the values of
/// aliases, which allows cycles and trees of exponential size.
class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const std::string& path) : path_(path) {}

  Options::Value take() && { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { scalar(mark, anchor, ""); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_tag(mark, tag);
    scalar(mark, anchor, value);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (anchor >= anchors_.size() || !anchors_[anchor].complete)
      fail(mark, "an alias inside its own anchor");
    const Options::Value value = anchors_[anchor].value;
    count(mark, count_values(value));
    if (open_.size() + count_levels(value) > most_levels) too_deep(mark);
    add(mark, value, 0);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    start(mark, tag, anchor, false);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    start(mark, tag, anchor, true);
  }
  void OnMapEnd() override { end(); }

 private:
  struct Open {
    YAML::Mark mark;
    YAML::anchor_t anchor;
    bool mapping;
    bool has_key = false;
    std::string key;
    std::set<std::string> keys;  ///< so far
    Options::Value value;
  };
  struct Anchor {
    bool complete = false;
    Options::Value value;
  };

  std::string where(const YAML::Mark& mark) const {
    return fmt::format("{}:{}:{}", path_, mark.line + 1, mark.column + 1);
  }
  [[noreturn]] void fail(const YAML::Mark& mark, std::string_view what) const {
    throw InputError(fmt::format("{}: {}", where(mark), what));
  }
  [[noreturn]] void too_deep(const YAML::Mark& mark) const {
    fail(mark, fmt::format("nested more than {} levels deep", most_levels));
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (!tag.empty() && tag != "?" && tag != "!")
      fail(mark, fmt::format("a tag ('{}'): tags are not supported", tag));
  }
  void count(const YAML::Mark& mark, std::size_t more) {
    values_ += more;
    if (values_ > most_scalars)
      fail(mark, fmt::format("more than {} values, with aliases expanded", most_scalars));
  }

  void scalar(const YAML::Mark& mark, YAML::anchor_t anchor, const std::string& text) {
    count(mark, 1);
    add(mark, {.text = text, .where = where(mark), .children = {}}, anchor);
  }
  void start(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, bool mapping) {
    refuse_tag(mark, tag);
    count(mark, 1);
    if (!open_.empty() && open_.back().mapping && !open_.back().has_key)
      fail(mark, "a list or mapping as a key");
    if (open_.size() + 1 > most_levels) too_deep(mark);
    open_.push_back({.mark = mark,
                     .anchor = anchor,
                     .mapping = mapping,
                     .key = {},
                     .keys = {},
                     .value = {.text = {}, .where = where(mark), .children = {}}});
  }
  void end() {
    Open done = std::move(open_.back());
    open_.pop_back();
    add(done.mark, std::move(done.value), done.anchor);
  }

  /// Adds a finished value: a key or a value of the current mapping, an item of the current list,
  /// or the whole document.
  void add(const YAML::Mark& mark, Options::Value value, YAML::anchor_t anchor) {
    if (anchor != 0) {
      if (anchors_.size() <= anchor) anchors_.resize(anchor + 1);
      anchors_[anchor] = {.complete = true, .value = value};
      count(mark, count_values(value));  // the copy
    }
    if (open_.empty()) {
      root_ = std::move(value);
      return;
    }
    Open& in = open_.back();
    if (!in.mapping) {
      in.value.children.emplace_back("", std::move(value));
    } else if (in.has_key) {
      in.value.children.emplace_back(std::move(in.key), std::move(value));
      in.has_key = false;
    } else {
      in.key = key(mark, in, value);
      in.has_key = true;
    }
  }

  std::string key(const YAML::Mark& mark, Open& in, const Options::Value& value) const {
    if (!value.children.empty()) fail(mark, "a list or mapping as a key");
    if (value.text.empty()) fail(mark, "an empty key");
    if (value.text == "<<")
      fail(mark, "a merge key ('<<'), which YAML 1.2 does not have: write the keys out");
    if (!in.keys.insert(value.text).second)
      fail(mark, fmt::format("'{}' is given twice", value.text));
    return value.text;
  }

  const std::string& path_;
  Options::Value root_;
  std::vector<Open> open_;
  std::vector<Anchor> anchors_;  // index 0 is no anchor
  std::size_t values_ = 0;
};

/// The first of the `most` first lines that has a tab before its text; the first line is 1.
std::optional<int> indented_by_tab(std::string_view text, int most) {
  for (int line = 1; line <= most && !text.empty(); ++line) {
    const std::string_view blank = text.substr(0, text.find_first_not_of(" \t"));
    if (blank.find('\t') != std::string_view::npos) return line;
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  }
  return std::nullopt;
}

/// The most frequent cause of the parser's `message`.
std::string_view hint(std::string_view message) {
  if (message == "illegal map value")
    return ": is a space missing after ':' or '-', or is this line indented too far, or the one "
           "before?";
  if (message == "end of map not found" || message == "end of sequence not found")
    return ": keys of one section must begin in the same column";
  return "";
}

}  // namespace

Options::Value parse_yaml(std::string_view text, const std::string& path) {
  if (text.size() > most_bytes)
    throw InputError(fmt::format("{}: more than {} bytes", path, most_bytes));
  std::istringstream in{std::string(text)};
  TreeBuilder builder(path);
  try {
    YAML::Parser parser(in);
    if (!parser.HandleNextDocument(builder)) throw InputError(fmt::format("{}: it is empty", path));
    TreeBuilder rest(path);
    if (parser.HandleNextDocument(rest))
      throw InputError(fmt::format("{}: more than one document ('---')", path));
  } catch (const YAML::Exception& e) {
    if (e.mark.is_null()) throw InputError(fmt::format("{}: not YAML: {}", path, e.msg));
    if (const auto line = indented_by_tab(text, e.mark.line + 1))
      throw InputError(
          fmt::format("{}:{}:1: not YAML: a tab; lines are indented by spaces", path, *line));
    throw InputError(fmt::format("{}:{}:{}: not YAML: {}{}", path, e.mark.line + 1,
                                 e.mark.column + 1, e.msg, hint(e.msg)));
  }
  return std::move(builder).take();
}

}  // namespace baechi
