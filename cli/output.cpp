#include "cli/output.h"

#include <unistd.h>

#include <cerrno>
#include <sstream>
#include <system_error>

#include "scenarios/report/html.h"

namespace baechi {
namespace {

std::size_t shown_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

constexpr std::size_t width = 100, column = 34;

}  // namespace

std::size_t terminal_width() {
  const char* columns = std::getenv("COLUMNS");  // NOLINT(concurrency-mt-unsafe): read only
  std::size_t width = 100;
  if (columns != nullptr)
    std::from_chars(columns, columns + std::char_traits<char>::length(columns), width);
  return std::max<std::size_t>(width, 40);
}

bool on_terminal() { return isatty(STDOUT_FILENO) == 1; }

bool coloured() {
  const char* no_color = std::getenv("NO_COLOR");  // NOLINT(concurrency-mt-unsafe): read only
  return on_terminal() && (no_color == nullptr || *no_color == '\0');
}

std::string bold(std::string_view text) {
  return coloured() ? fmt::format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}

std::string red(std::string_view text) {
  return coloured() ? fmt::format("\x1b[31m{}\x1b[0m", text) : std::string(text);
}

std::string Columns::text() const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], shown_width(row[i]));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string gap(widths[i] - shown_width(row[i]), ' ');
      line += i == 0 ? row[i] + gap : "  " + gap + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += (&row == &rows_.front() ? bold(line) : line) + "\n";
  }
  return text;
}

std::string percent(double part, double whole) {
  return whole > 0.0 ? fmt::format("{:.1f} %", 100.0 * part / whole) : "-";
}
std::string percent(Duration part, Duration whole) {
  return percent(static_cast<double>(part.count()), static_cast<double>(whole.count()));
}
std::string percent(Bytes part, Bytes whole) {
  return percent(static_cast<double>(part.count), static_cast<double>(whole.count));
}

void Report::add(std::vector<Cell> row) {
  BAECHI_CHECK(row.size() == columns_.size(), "a row of {} cells under {} columns", row.size(),
               columns_.size());
  rows_.push_back(std::move(row));
}

std::string Report::table() const {
  const auto cells = [this](const auto& cell_text) {
    std::vector<std::string> line;
    for (std::size_t c = 0; c < columns_.size(); ++c)
      if (columns_[c].head) line.push_back(cell_text(c));
    return line;
  };
  Columns table(cells([this](std::size_t c) { return *columns_[c].head; }));
  for (const std::vector<Cell>& row : rows_)
    table.add(cells([&row](std::size_t c) { return row[c].text; }));
  return table.text();
}

nlohmann::ordered_json Report::json() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const std::vector<Cell>& row : rows_) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    for (std::size_t c = 0; c < columns_.size(); ++c)
      if (!columns_[c].key.empty()) object[columns_[c].key] = row[c].value;
    list.push_back(std::move(object));
  }
  return list;
}

void print_out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return;
  if (errno == EPIPE) return;
  throw std::runtime_error(
      fmt::format("cannot write the answer: {}", std::generic_category().message(errno)));
}

void print_json(const nlohmann::ordered_json& json) {
  print_out(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

void print_pictures(const std::string& folder, std::string_view files) {
  fmt::print(stderr, "{}/{}\n", folder, files);
  const std::string why_not = draw_plots(folder);
  fmt::print(stderr, "{}\n",
             why_not.empty() ? fmt::format("{0}/*.svg  {0}/*.pdf", folder) : why_not);
}

std::string wrapped_lines(const std::string& text, std::size_t most) {
  std::string out;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    out += (line.size() <= most ? line : wrapped(line, most)) + "\n";
    begin = end + 1;
  }
  return out;
}

std::string wrapped(const std::string& text, std::size_t most) {
  std::string out, line;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!line.empty() && line.size() + 1 + word.size() > most) {
      out += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    begin = end + 1;
  }
  return out + line;
}

HelpFormat::HelpFormat() {
  label("OPTIONS", "FLAGS");
  label("SUBCOMMAND", "VERB");
  column_width(column);
}

std::string HelpFormat::make_option_desc(const CLI::Option* option) const {
  return wrapped(option->get_description(), width - column);
}

std::string HelpFormat::make_option_opts(const CLI::Option* option) const {
  std::string text;
  if (option->get_type_size() != 0 && !option->get_type_name().empty())
    text = " " + option->get_type_name();
  if (option->get_expected_max() >= CLI::detail::expected_max_vector_size) text += " ...";
  if (option->get_required() && option->nonpositional()) text += " (needed)";
  return text;
}

std::string HelpFormat::make_subcommand(const CLI::App* verb) const {
  std::ostringstream out;
  CLI::detail::format_help(out, verb->get_name(), wrapped(verb->get_description(), width - column),
                           column);
  return out.str();
}

std::string HelpFormat::make_description(const CLI::App* verb) const {
  return wrapped_lines(verb->get_description(), width);
}

std::string HelpFormat::make_footer(const CLI::App* verb) const {
  const std::string text = wrapped_lines(verb->get_footer(), width);
  return text.empty() ? "" : "\n" + text;
}

void plain_types(CLI::App& verb) {
  for (CLI::Option* option : verb.get_options()) {
    // CLI11 appends the validators' descriptions to the type: "INT in [1 - 1024]".
    try {
      for (int i = 0;; ++i) option->get_validator(i)->description("");
    } catch (const CLI::OptionNotFound&) {  // no more validators
    }
  }
  for (CLI::App* inner : verb.get_subcommands({})) plain_types(*inner);
}

}  // namespace baechi
