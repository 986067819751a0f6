#include "scenarios/read/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <numeric>
#include <sstream>

namespace baechi {
namespace {

/// The item of `list` with the index `text`; null if there is none.
Options::Value* item(Options::Value& list, std::string_view text) {
  std::size_t i = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), i);
  const bool whole = ec == std::errc{} && end == text.data() + text.size();
  return whole && i < list.children.size() ? &list.children[i].second : nullptr;
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') out += '\\';
    if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out + '"';
}

/// Conservative: true only if `text` needs no quotes in YAML.
bool is_plain(std::string_view text) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '/';
  };
  const auto is_inner = [&](char c) { return is_letter(c) || c == ' ' || c == '-' || c == '+'; };
  return !text.empty() && is_letter(text.front()) && text.back() != ' ' && text != "null" &&
         text != "Null" && text != "NULL" && !text.starts_with("...") &&
         std::ranges::all_of(text, is_inner);
}

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

const Options::Value* find(const Options::Value& v, std::string_view key) {
  const auto it =
      std::ranges::find(v.children, key, [](const auto& c) -> std::string_view { return c.first; });
  return it == v.children.end() ? nullptr : &it->second;
}

Options::Value* find(Options::Value& v, std::string_view key) {
  return const_cast<Options::Value*>(find(std::as_const(v), key));
}

void erase(Options::Value& v, std::string_view key) {
  std::erase_if(v.children, [&](const auto& c) { return c.first == key; });
}

std::size_t count_values(const Options::Value& v) {
  std::size_t n = 1;
  for (const auto& [key, child] : v.children) n += count_values(child);
  return n;
}

void put(Options::Value& root, std::string_view key, Options::Value value) {
  Options::Value* node = &root;
  std::size_t begin = 0;
  while (true) {
    const std::size_t dot = key.find('.', begin);
    const std::string_view part = key.substr(begin, dot - begin);
    const std::string_view way = key.substr(0, begin == 0 ? 0 : begin - 1);
    if (part.empty())
      throw InputError(fmt::format("{}'{}' is not a dotted key", at(value.where), key));
    if (is_list(*node)) {
      Options::Value* next = item(*node, part);
      if (next == nullptr)
        throw InputError(fmt::format("{}{}: {} is a list of {}: its items are {}.0 ... {}.{}",
                                     at(value.where), key, way, node->children.size(), way, way,
                                     node->children.size() - 1));
      node = next;
    } else {
      if (node->children.empty() && !node->text.empty())
        throw InputError(fmt::format("{}{}: {} is the single value '{}'", at(value.where), key, way,
                                     node->text));
      Options::Value* next = find(*node, part);
      if (next == nullptr) {
        node->children.emplace_back(
            part, Options::Value{.text = {}, .where = value.where, .children = {}});
        next = &node->children.back().second;
      }
      node = next;
    }
    if (dot == std::string_view::npos) break;
    begin = dot + 1;
  }
  *node = std::move(value);
}

std::string one_line(const Options::Value& v) {
  if (v.children.empty()) return is_plain(v.text) ? v.text : in_quotes(v.text);
  const bool mapping = is_mapping(v);
  std::string out(1, mapping ? '{' : '[');
  for (const auto& [key, child] : v.children) {
    if (out.size() > 1) out += ", ";
    if (mapping) out += (is_plain(key) ? key : in_quotes(key)) + ": ";
    out += one_line(child);
  }
  return out + (mapping ? '}' : ']');
}

std::size_t count_combinations(std::span<const Axis> axes, std::size_t most) {
  std::size_t n = 1;
  for (const Axis& axis : axes) {
    if (axis.values.empty()) return 0;
    n = n > most / axis.values.size() ? most + 1 : n * axis.values.size();
  }
  return n;
}

void for_each_combination(const std::string& name, const Options::Value& section,
                          std::span<const Axis> axes,
                          const std::function<bool(const Options::Value&)>& visit) {
  if (count_combinations(axes, 1) == 0) return;
  std::vector<std::size_t> widest_first(axes.size());
  std::iota(widest_first.begin(), widest_first.end(), 0U);
  std::ranges::stable_sort(widest_first, {}, [&](std::size_t i) { return axes[i].key.size(); });

  // Usually only the last axis's value changes, unless another axis is below its key.
  const bool last_alone = std::ranges::none_of(
      axes, [&](const Axis& axis) { return axis.key.starts_with(axes.back().key + "."); });
  std::vector<std::size_t> digit(axes.size(), 0);  // into each axis's values
  Options::Value root;
  for (std::size_t changed = 0; true;) {  // the first axis with another value
    if (changed + 1 == axes.size() && last_alone && !root.children.empty()) {
      put(root, axes.back().key, axes.back().values[digit.back()]);
    } else {
      root.children = {{name, section}};
      for (const std::size_t i : widest_first) put(root, axes[i].key, axes[i].values[digit[i]]);
    }
    if (!visit(root.children.front().second)) return;

    changed = axes.size();
    while (changed > 0 && ++digit[changed - 1] == axes[changed - 1].values.size())
      digit[--changed] = 0;
    if (changed-- == 0) return;
  }
}

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
