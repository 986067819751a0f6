#include "traces/format/json.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <new>

#include "sim/error.h"
#include "traces/format/json_string.h"

namespace baechi {
namespace {

constexpr std::size_t most_listed = 20;

std::string_view reason(simdjson::error_code error) {
  switch (error) {
    case simdjson::STRING_ERROR:
      return "a string with a broken escape";
    case simdjson::NUMBER_ERROR:
      return "a malformed number";
    case simdjson::T_ATOM_ERROR:
    case simdjson::F_ATOM_ERROR:
    case simdjson::N_ATOM_ERROR:
      return "a word other than true, false and null";
    case simdjson::INCOMPLETE_ARRAY_OR_OBJECT:
      return "a bracket that is never closed, or something after the last one";
    case simdjson::MEMALLOC:
      throw std::bad_alloc();
    case simdjson::DEPTH_ERROR:
      return "brackets nested more than 500 deep";
    default:
      return "a missing or superfluous comma, colon, quote or bracket";
  }
}

/// Offset and description of the first malformed string, whose position simdjson does not report.
std::pair<std::size_t, std::string_view> broken_string(std::string_view text) {
  constexpr std::string_view unclosed = "a string without its closing quote";
  bool inside = false;
  std::size_t opened = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      inside = !inside;
      opened = i;
    } else if (inside && text[i] == '\\') {
      ++i;
    } else if (inside && text[i] == '\n') {
      return {opened, unclosed};
    } else if (inside && static_cast<unsigned char>(text[i]) < 0x20) {
      return {i, "a control character inside a string"};
    }
  }
  return {opened, unclosed};
}

}  // namespace

JsonFile::JsonFile(std::string_view path, const std::string& text) : path_(path), text_(text) {
  if (text.capacity() - text.size() < simdjson::SIMDJSON_PADDING) {
    std::string& copy = now_->piece.text;
    copy.reserve(text.size() + simdjson::SIMDJSON_PADDING);
    copy = text;
    text_ = copy;
  }
  index_text(*now_, text_);
  begin();
}

JsonFile::JsonFile(TextFile& file) : path_(file.path()), pieces_(file) { next_piece(); }

void JsonFile::index_text(ParsedPiece& part, std::string_view text) {
  part.error =
      part.parser.iterate(text.data(), text.size(), text.size() + simdjson::SIMDJSON_PADDING)
          .get(part.document);
}

bool JsonFile::prepare_next() {
  std::string& text = next_->piece.text;
  if (!pieces_->next(next_->piece)) return false;
  text.reserve(text.size() + simdjson::SIMDJSON_PADDING);
  index_text(*next_, text);
  return true;
}

bool JsonFile::next_piece() {
  if (!pieces_) return false;
  if (!(prefetch_.valid() ? prefetch_.get() : prepare_next())) return false;
  std::swap(now_, next_);
  if (now_->piece.closing > 0)  // not the last piece: prepare the next one concurrently
    prefetch_ = std::async(std::launch::async, [this] { return prepare_next(); });
  text_ = now_->piece.text;
  begin();
  return true;
}

void JsonFile::begin() {
  cached_place_ = now_->piece.place;
  cached_offset_ = now_->piece.opening;
  switch (now_->error) {
    case simdjson::SUCCESS:
      return;
    case simdjson::EMPTY:
      throw InputError(fmt::format("{}: the file is empty", path_));
    case simdjson::CAPACITY:
      throw InputError(fmt::format("{}: {} bytes of JSON are more than 4 GB", path_, text_.size()));
    case simdjson::UTF8_ERROR:
      syntax_error(valid_utf8(text_), "a byte that is not UTF-8");
    case simdjson::UNESCAPED_CHARS:
    case simdjson::UNCLOSED_STRING: {
      const auto [offset, what] = broken_string(text_);
      syntax_error(offset, what);
    }
    default:
      syntax_error(text_.size(), reason(now_->error));
  }
}

Json JsonFile::root() {
  simdjson::ondemand::value value;
  const simdjson::error_code error = now_->document.get_value().get(value);
  if (error == simdjson::SCALAR_DOCUMENT_AS_VALUE)
    syntax_error(text_.find_first_not_of(" \t\r\n"), "neither an object nor a list");
  if (error != simdjson::SUCCESS) broken(error);
  return {*this, "the file", value};
}

JsonPlace JsonFile::place(std::size_t offset) {
  offset = std::clamp(offset, now_->piece.opening, text_.size() - now_->piece.closing);
  if (offset < cached_offset_) {
    cached_place_ = now_->piece.place;
    cached_offset_ = now_->piece.opening;
  }
  cached_place_ = advance(cached_place_, text_.substr(cached_offset_, offset - cached_offset_));
  cached_offset_ = offset;
  return cached_place_;
}

void JsonFile::mistake(std::size_t offset, std::string what) {
  // Finding the place is slow, so it is skipped for mistakes that are not listed.
  mistake(mistakes_.size() < most_listed ? place(offset) : JsonPlace{}, std::move(what));
}

void JsonFile::mistake(JsonPlace place, std::string what) {
  if (mistakes_.size() < most_listed)
    mistakes_.push_back({place, std::move(what)});
  else
    ++unlisted_;
}

void JsonFile::throw_if_any() const {
  std::vector<Mistake> ordered = mistakes_;
  std::ranges::stable_sort(ordered, {}, &Mistake::place);
  Mistakes all;
  for (const Mistake& m : ordered)
    all.add(fmt::format("{}:{}:{}: {}", path_, m.place.line, m.place.column, m.what));
  if (unlisted_ > 0) all.add(fmt::format("{}: and {} more", path_, unlisted_));
  all.throw_if_any();
}

void JsonFile::finish() {
  throw_if_any();
  const char* rest = nullptr;
  if (now_->document.current_location().get(rest) == simdjson::SUCCESS)
    syntax_error(offset_of(rest), "something after the end of the value");
}

void JsonFile::syntax_error(std::size_t offset, std::string_view what) {
  unlisted_ = 0;
  if (mistakes_.size() == most_listed) mistakes_.pop_back();
  mistake(offset, fmt::format("not JSON: {}", what));
  throw_if_any();
  std::abort();  // not reached
}

void JsonFile::broken(simdjson::error_code error) {
  const char* place = nullptr;
  if (now_->document.current_location().get(place) != simdjson::SUCCESS)
    place = text_.data() + text_.size();
  syntax_error(offset_of(place), reason(error));
}

JsonFile::KeyOrder& JsonFile::order_of(const JsonKeys& keys) {
  for (KeyOrder& order : orders_)
    if (order.names.data() == keys.names.data() && order.names.size() == keys.names.size())
      return order;
  KeyOrder& order = orders_.emplace_front();
  order.names = keys.names;
  for (std::size_t k = 0; k < keys.names.size(); ++k)
    order.next[k] = static_cast<std::uint8_t>((k + 1) % keys.names.size());
  return order;
}

bool JsonFile::search(simdjson::ondemand::field& field, const JsonKeys& keys, Fields& fields) {
  const char* raw = field.key().raw();
  const std::size_t n = keys.names.size();
  std::uint8_t& guess = fields.order.next[fields.key];
  std::size_t key = guess;
  std::size_t tried = 0;
  for (; tried < n; ++tried, key = key + 1 < n ? key + 1 : 0)
    if (is(field, keys.names[key])) break;
  if (tried == n) {  // the key is unknown or has escapes
    std::string_view name;
    if (const auto error = field.unescaped_key().get(name); error != simdjson::SUCCESS)
      syntax_error(offset_of(raw), reason(error));
    if (name.starts_with("x-")) {
      check_syntax(field.value(), 0);
      return false;
    }
    const auto it = std::ranges::find(keys.names, name);
    if (it == keys.names.end()) {
      const std::vector<std::string> all(keys.names.begin(), keys.names.end());
      mistake(offset_of(raw) - 1,
              fmt::format("{} has no key '{}'{} (keys: {}, or x-...)", keys.object,
                          name.substr(0, 60), did_you_mean(name, all), fmt::join(all, ", ")));
      return false;
    }
    key = static_cast<std::size_t>(it - keys.names.begin());
  }
  guess = static_cast<std::uint8_t>(key);
  fields.key = key;
  const std::uint64_t bit = std::uint64_t{1} << key;
  if ((fields.seen & bit) != 0) {
    mistake(offset_of(raw) - 1, fmt::format("{} has two keys '{}'", keys.object, keys.names[key]));
    return false;
  }
  fields.seen |= bit;
  return true;
}

void JsonFile::check_syntax(simdjson::ondemand::value value, int depth) {
  const auto must = [this](simdjson::error_code error) {
    if (error != simdjson::SUCCESS) broken(error);
  };
  if (depth > 500) broken(simdjson::DEPTH_ERROR);
  simdjson::ondemand::json_type type{};
  must(value.type().get(type));
  if (type == simdjson::ondemand::json_type::object) {
    simdjson::ondemand::object object;
    must(value.get_object().get(object));
    for (auto field : object) {
      std::string_view name;
      must(field.unescaped_key().get(name));
      must(field.value().error());
      check_syntax(field.value().value_unsafe(), depth + 1);
    }
  } else if (type == simdjson::ondemand::json_type::array) {
    simdjson::ondemand::array array;
    must(value.get_array().get(array));
    for (auto element : array) {
      must(element.error());
      check_syntax(element.value_unsafe(), depth + 1);
    }
  } else if (type == simdjson::ondemand::json_type::string) {
    must(value.get_string().error());
  } else if (type == simdjson::ondemand::json_type::number) {
    const auto error = value.get_double().error();
    if (error != simdjson::NUMBER_OUT_OF_RANGE) must(error);
  } else if (type == simdjson::ondemand::json_type::boolean) {
    must(value.get_bool().error());
  }
}

std::string_view Json::token() {
  std::string_view text = value_.raw_json_token();
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

void Json::is_not(std::string_view expected) {
  std::string found(token().substr(0, 40));
  if (found.empty() || std::string_view("]},:").find(found[0]) != std::string_view::npos)
    file_->syntax_error(offset(), "a value is missing");
  if (found.starts_with('{')) found = "an object";
  if (found.starts_with('[')) found = "a list";
  // Truncate between characters.
  while (!found.empty() && !simdjson::validate_utf8(found)) found.pop_back();
  mistake(fmt::format("{}{} is not {}", found, token().size() > 40 ? "..." : "", expected));
}

std::string_view Json::string() {
  if (!starts_with('"')) {
    is_not("a string");
    return {};
  }
  std::string_view text = string_without_escapes();
  if (text.data() != nullptr) return text;
  if (const auto error = value_.get_string().get(text); error != simdjson::SUCCESS)
    file_->syntax_error(offset(), reason(error));
  return text;
}

/// The string value; a null view if it has a backslash. simdjson has checked that it ends.
std::string_view Json::string_without_escapes() {
  static_assert(std::endian::native == std::endian::little && simdjson::SIMDJSON_PADDING >= 8);
  constexpr std::uint64_t each = 0x0101'0101'0101'0101;
  const char* const begin = start() + 1;
  for (const char* at = begin;; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);
    const auto zeros = [](std::uint64_t w) { return (w - each) & ~w & 0x80 * each; };
    const std::uint64_t found = zeros(word ^ '"' * each) | zeros(word ^ '\\' * each);
    if (found == 0) continue;
    at += std::countr_zero(found) / 8;
    if (*at == '\\') return {};
    return {begin, static_cast<std::size_t>(at - begin)};
  }
}

/// The value if it is written as 1 to 18 digits.
std::optional<std::int64_t> Json::digits() {
  const char* const begin = start();
  const char* at = begin;
  std::uint64_t n = 0;
  for (; *at >= '0' && *at <= '9'; ++at) n = 10 * n + static_cast<std::uint64_t>(*at - '0');
  const std::ptrdiff_t size = at - begin;
  if (size == 0 || size > 18 || (*begin == '0' && size > 1)) return std::nullopt;
  const bool ends = *at == ',' || *at == '}' || *at == ']' || *at == ' ' || *at == '\n';
  return ends ? std::optional(static_cast<std::int64_t>(n)) : std::nullopt;
}

std::int64_t Json::whole() {
  if (const auto short_number = digits()) return *short_number;
  std::int64_t n = -1;
  double x = -1.0;
  if (value_.get_int64().get(n) == simdjson::SUCCESS) {
    if (n >= 0) return n;
  } else if (value_.get_double().get(x) == simdjson::SUCCESS && x >= 0.0 && x < 0x1p63 &&
             x == std::floor(x)) {
    return static_cast<std::int64_t>(x);
  }
  is_not("a whole number from 0 to 9223372036854775807");
  return 0;
}

double Json::number() {
  double x = -1.0;
  if (value_.get_double().get(x) == simdjson::SUCCESS && x >= 0.0 && std::isfinite(x)) return x;
  is_not("a finite number >= 0");
  return 0.0;
}

bool Json::boolean() {
  const std::string_view text = token();
  if (text == "true" || text == "1") return true;
  if (text != "false" && text != "0") is_not("true or false");
  return false;
}

std::size_t Json::one_of(std::span<const std::string_view> words) {
  std::string_view text;
  if (starts_with('"')) {
    text = string();
    const auto it = std::ranges::find(words, text);
    if (it != words.end()) return static_cast<std::size_t>(it - words.begin());
  }
  const std::vector<std::string> known(words.begin(), words.end());
  is_not(fmt::format("{}{}{}", words.size() > 1 ? "one of " : "", fmt::join(words, ", "),
                     did_you_mean(text, known)));
  return 0;
}

}  // namespace baechi
