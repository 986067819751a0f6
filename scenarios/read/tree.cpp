#include "scenarios/read/tree.h"

#include <algorithm>
#include <charconv>

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

}  // namespace baechi
