#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/text.h"
#include "validate/published/published.h"

namespace baechi {

extern const char *const page_css, *const chart_js, *const published_js;

namespace validate {
namespace {

/// Points of a chart; of more rows every so-manieth is drawn.
constexpr std::size_t most_points = 2000;

std::string percent(bool known, double share) {
  return fmt::format("<td>{}</td>", known ? fmt::format("{:.1f} %", 100.0 * share) : "");
}

std::string table_of(std::span<const PublishedScore> scores) {
  std::string out = "<div class=\"scroll\"><table><thead><tr>";
  for (const char* name :
       {"block", "rows", "skipped", "mean", "median", "by size", "baseline", "worst", "worst row"})
    out += fmt::format("<th>{}</th>", name);
  out += "</tr></thead>\n";
  for (const PublishedScore& s : scores) {
    const PublishedErrors& e = s.errors;
    out += fmt::format("<tr><th>{}</th><td>{}</td><td>{}</td>", s.block->name, e.rows,
                       s.left.skipped.size());
    out += percent(e.rows > 0, e.mean) + percent(e.rows > 0, e.median) +
           percent(e.log_mean.has_value(), e.log_mean.value_or(0.0)) +
           percent(s.baseline.rows > 0, s.baseline.mean) + percent(e.rows > 0, e.worst);
    out += fmt::format("<td style=\"text-align:left;white-space:normal\">{}</td>",
                       s.rows.empty() ? "" : escaped(s.rows[s.worst].what));
    out += "</tr>\n";
  }
  return out + "</table></div>\n";
}

/// As JSON inside a page, where "<" might end the script.
std::string data_of(std::span<const PublishedScore> scores) {
  nlohmann::ordered_json blocks = nlohmann::ordered_json::array();
  for (const PublishedScore& s : scores) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    const std::size_t step = (s.rows.size() + most_points - 1) / most_points;
    for (std::size_t i = 0; i < s.rows.size(); i += step) {
      const PublishedRow& row = s.rows[i];
      rows.push_back({{"what", row.what},
                      {"group", row.group},
                      {"measured", row.measured},
                      {"simulated", row.simulated},
                      {"size", row.size}});
    }
    blocks.push_back({{"name", s.block->name}, {"rows", std::move(rows)}});
  }
  std::string text;
  for (const char c : blocks.dump()) text += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return text;
}

/// What each block is, and what the board could not use.
std::string notes_of(const ScoreBoard& board) {
  std::string out;
  for (const PublishedScore& s : board.scores)
    out += fmt::format("<li>{}: {}. Fitted to: {}. Baseline: {}.{}</li>\n", s.block->name,
                       escaped(s.block->summary), escaped(s.fitted), escaped(s.block->baseline),
                       s.block->published.empty()
                           ? ""
                           : fmt::format(" Published: {}.", escaped(s.block->published)));
  for (const Unasked& file : board.unasked)
    out += fmt::format("<li>{} rows of {} are in no block</li>\n", file.rows, escaped(file.file));
  for (const PublishedScore& s : board.scores)
    if (!s.left.skipped.empty())
      out += fmt::format("<li>{}: {} rows skipped, the first: {}</li>\n", s.block->name,
                         s.left.skipped.size(), escaped(s.left.skipped.front().why));
  return fmt::format("<ul>\n{}</ul>\n", out);
}

}  // namespace

std::string to_html(const ScoreBoard& board) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<title>Simulated against published measurements</title>\n<style>{}</style></head>\n<body>\n"
      "<h1>Simulated against published measurements</h1>\n"
      "<p>Errors are relative to what was measured; the mean and median are of absolute errors. "
      "\"By size\" is the mean where each doubling of the size counts alike. The baseline is one "
      "rate for rows alike, and knows the rows that it predicts: a model that does not halve its "
      "error says little. On the dashed lines, simulated and measured are equal. Charts draw at "
      "most {} rows of a block.</p>\n",
      page_css, most_points);
  out += table_of(board.scores) + notes_of(board) + "<div class=\"charts\">\n";
  for (std::size_t i = 0; i < board.scores.size(); ++i)
    if (!board.scores[i].rows.empty())
      for (const char* chart : {"block", "errors"})
        out += fmt::format("<div class=\"chart\"><canvas id=\"{}{}\"></canvas></div>\n", chart, i);
  out += fmt::format("</div>\n<script type=\"application/json\" id=\"data\">{}</script>\n",
                     data_of(board.scores));
  for (const char* script : {chart_js, published_js})
    out += fmt::format("<script>\n{}</script>\n", script);
  return out + "</body></html>\n";
}

}  // namespace validate
}  // namespace baechi
