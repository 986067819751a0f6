#include "scenarios/report/gnuplot.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "placers/external/child_process.h"
#include "sim/error.h"
#include "sim/file_aside.h"

namespace baechi {
namespace {

namespace fs = std::filesystem;

/// A string as gnuplot reads it.
std::string gnuplot_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "''" : std::string(1, c);
  return out + '\'';
}

/// Counts the pictures in a folder, now and then, until it is destroyed.
class FolderWatch {
 public:
  FolderWatch(std::string folder, std::atomic<std::size_t>& done)
      : watcher_([folder = std::move(folder), &done](const std::stop_token& stop) {
          for (; !stop.stop_requested();
               std::this_thread::sleep_for(std::chrono::milliseconds(200))) {
            std::size_t pictures = 0;
            std::error_code gone;
            for (const auto& entry : fs::directory_iterator(folder, gone))
              pictures += entry.path().extension() == ".pdf" ? 1U : 0U;
            done = pictures;
          }
        }) {}

 private:
  std::jthread watcher_;
};

}  // namespace

std::string installed_gnuplot(std::string_view what_for) {
  const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): read only
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    std::string candidate = fmt::format("{}/gnuplot", folder.empty() ? "." : folder);
    if (access(candidate.c_str(), X_OK) == 0 && fs::is_regular_file(candidate)) return candidate;
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
  }
  throw InputError(fmt::format(
      "{} needs gnuplot, which is not in PATH (Debian: apt install gnuplot-nox)", what_for));
}

std::string without_date(std::string pdf) {
  constexpr std::string_view key = "/CreationDate (D:", some_date = "19700101000000";
  for (std::size_t at = 0; (at = pdf.find(key, at)) != std::string::npos;) {
    at += key.size();
    for (std::size_t i = 0; at < pdf.size() && pdf[at] != ')'; ++at, ++i)
      if (pdf[at] >= '0' && pdf[at] <= '9') pdf[at] = i < some_date.size() ? some_date[i] : '0';
  }
  return pdf;
}

void draw_plots(const std::string& folder, std::span<const Plot> plots, const std::string& gnuplot,
                const Watch& watch) {
  const std::string aside = folder + ".part";
  fs::remove_all(aside);
  fs::create_directories(aside);
  fs::create_directories(folder);
  std::set<std::string> names;
  std::string all = fmt::format("cd {}\n", gnuplot_quoted(aside));
  for (const Plot& plot : plots) {
    BAECHI_CHECK(names.insert(plot.name).second, "two plots named {}", plot.name);
    write_aside(aside + "/" + plot.name + ".gp", plot.script);
    all += fmt::format("load {}\nreset session\n", gnuplot_quoted(plot.name + ".gp"));
  }
  std::atomic<std::size_t> done{0};
  external::ProcessResult result;
  {
    const auto shown = begin_watch(watch, done, plots.size());
    const FolderWatch counting(aside, done);
    result = external::run_process(gnuplot, std::vector<std::string>{"-"}, all,
                                   {.time = std::chrono::minutes(2) * (1 + plots.size() / 20)});
  }
  if (result.exit_code != 0 || result.signal != 0 || result.stopped != external::Stopped::no)
    throw std::runtime_error(fmt::format("gnuplot failed in {}: {}", aside, result.error_tail));
  for (const Plot& plot : plots) {
    const std::string pdf = aside + "/" + plot.name + ".pdf";
    std::ifstream drawn(pdf, std::ios::binary);
    write_aside(pdf, without_date({std::istreambuf_iterator<char>(drawn), {}}));
  }
  for (const Plot& plot : plots)
    for (const char* ending : {".gp", ".svg", ".pdf"})
      fs::rename(aside + "/" + plot.name + ending, folder + "/" + plot.name + ending);
  fs::remove_all(aside);
}

}  // namespace baechi
