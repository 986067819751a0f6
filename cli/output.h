/// Prints answers on standard output, as text tables or JSON; and the layout of --help.
#pragma once
#include <CLI/CLI.hpp>
#include <concepts>
#include <nlohmann/json.hpp>
#include <vector>

#include "sim/units.h"

namespace baechi {

/// Whether standard output is a terminal and NO_COLOR is unset or empty.
bool coloured();
bool on_terminal();
/// Width of the terminal by $COLUMNS, at least 40; 100 if that is not set.
std::size_t terminal_width();
std::string bold(std::string_view text);
std::string red(std::string_view text);

/// A plain text table: two spaces between columns, the first one left-aligned, the others
/// right-aligned. Rows may have fewer cells than the header.
class Columns {
 public:
  explicit Columns(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// A value of a report, for JSON and as text.
struct Cell {
  nlohmann::ordered_json value{};
  std::string text{};

  Cell(nlohmann::ordered_json json, std::string shown)
      : value(std::move(json)), text(std::move(shown)) {}
  Cell(std::string_view word) : value(word), text(word) {}
  Cell(const char* word) : Cell(std::string_view(word)) {}
  Cell(const std::string& word) : Cell(std::string_view(word)) {}
  Cell(bool on) : value(on), text(on ? "on" : "off") {}
  Cell(std::integral auto number) : value(number), text(std::to_string(number)) {}
  Cell(Duration time) : value(to_us(time)), text(to_text(time)) {}  ///< us in JSON
  Cell(Bytes size) : value(size.count), text(to_text(size)) {}
};
/// part / whole as "12.5 %"; "-" if `whole` is 0.
std::string percent(double part, double whole);
std::string percent(Duration part, Duration whole);
std::string percent(Bytes part, Bytes whole);

/// A table that a verb prints as text or as JSON.
class Report {
 public:
  struct Column {
    std::string key;                  ///< in JSON; "": in the text table only
    std::optional<std::string> head;  ///< in the text table; nullopt: in JSON only
  };
  explicit Report(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void add(std::vector<Cell> row);
  std::string table() const;            ///< the layout of Columns
  nlohmann::ordered_json json() const;  ///< an array with an object per row

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

/// Prints and flushes. Throws std::runtime_error if that fails, except if the reader has closed its
/// end (`| head`).
void print_out(std::string_view text);
void print_json(const nlohmann::ordered_json& json);
/// Says on standard error that `files` of `folder` are written, draws the folder's plots, and says
/// where the pictures are, or why there are none.
void print_pictures(const std::string& folder, std::string_view files);

/// The layout of --help: lines of 100 characters; flags with the type of their value.
class HelpFormat final : public CLI::Formatter {
 public:
  HelpFormat();
  std::string make_option_desc(const CLI::Option* option) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_subcommand(const CLI::App* verb) const override;
  std::string make_description(const CLI::App* verb) const override;
  std::string make_footer(const CLI::App* verb) const override;
};

/// Breaks `text` at spaces into lines of at most `most` characters; longer words are not broken.
std::string wrapped(const std::string& text, std::size_t most);

std::string wrapped_lines(const std::string& text, std::size_t most = 100);

/// Removes CLI11's descriptions of validators from the help of the verb and its subcommands.
void plain_types(CLI::App& verb);

}  // namespace baechi
