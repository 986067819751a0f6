#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "validate/published/published.h"

namespace baechi {

extern const char *const page_css, *const chart_js, *const published_js;

namespace validate {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

std::string table_of(std::span<const PublishedScore> scores) {
  std::string out =
      "<div class=\"scroll\"><table><thead><tr><th>block</th><th>rows</th><th>mean</th>"
      "<th>median</th><th>worst</th><th>worst row</th><th>measured</th><th>fitted to</th>"
      "<th>published simulators</th></tr></thead>\n";
  for (const PublishedScore& s : scores) {
    out += fmt::format(
        "<tr><th>{}</th><td>{}</td><td>{:.1f} %</td><td>{:.1f} %</td><td>{:+.1f} %</td>",
        s.block->name, s.errors.rows, 100.0 * s.errors.mean, 100.0 * s.errors.median,
        100.0 * s.errors.worst);
    for (const std::string_view text :
         {std::string_view(s.rows.empty() ? std::string_view()
                                          : std::string_view(s.rows[s.worst].what)),
          s.block->summary, std::string_view(s.fitted), s.block->published})
      out += fmt::format("<td style=\"text-align:left;white-space:normal\">{}</td>", escaped(text));
    out += "</tr>\n";
  }
  return out + "</table></div>\n";
}

/// As JSON inside a page, where "<" might end the script.
std::string data_of(std::span<const PublishedScore> scores) {
  nlohmann::ordered_json blocks = nlohmann::ordered_json::array();
  for (const PublishedScore& s : scores) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const PublishedRow& row : s.rows)
      rows.push_back({{"what", row.what},
                      {"group", row.group},
                      {"measured", row.measured},
                      {"simulated", row.simulated}});
    blocks.push_back({{"name", s.block->name}, {"rows", std::move(rows)}});
  }
  std::string text;
  for (const char c : blocks.dump()) text += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return text;
}

}  // namespace

std::string to_html(const ScoreBoard& board) {
  const std::span<const PublishedScore> scores = board.scores;
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<title>Simulated against published measurements</title>\n<style>{}</style></head>\n<body>\n"
      "<h1>Simulated against published measurements</h1>\n"
      "<p>Errors are relative to what was measured; the mean and median are of absolute errors. On "
      "the dashed line, simulated and measured are equal.</p>\n",
      page_css);
  out += table_of(scores) + "<div class=\"charts\">\n";
  for (std::size_t i = 0; i < scores.size(); ++i)
    out += fmt::format("<div class=\"chart\"><canvas id=\"block{}\"></canvas></div>\n", i);
  out += fmt::format("</div>\n<script type=\"application/json\" id=\"data\">{}</script>\n",
                     data_of(scores));
  for (const char* script : {chart_js, published_js})
    out += fmt::format("<script>\n{}</script>\n", script);
  return out + "</body></html>\n";
}

}  // namespace validate
}  // namespace baechi
