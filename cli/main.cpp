/// The program baechi: parses the command line and runs one verb. Exit codes: 0 done, 1 internal
/// failure, 2 the user's mistake, 3 a check found a difference, 130 interrupted.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <new>

#include "cli/output.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "sim/error.h"
#include "sim/text.h"

namespace baechi {

/// Short hash of the git commit that was built, "5506f66" or "5506f66-dirty"; "" if not in a
/// checkout. Defined by commit.cmake.
extern const char* const commit;

namespace {

constexpr int internal_failure = 1, users_mistake = 2;

/// Sets up signals and standard streams:
/// - ignores SIGPIPE, so that a reader of the output may close its end;
/// - ignores SIGXFSZ, so that a write beyond the file size limit fails with a message;
/// - opens /dev/null for a closed standard stream, so that no output file gets its number;
/// - lets SIGINT and SIGTERM exit with code 130.
void init_process() {
  for (int stream = 0; stream <= 2; ++stream) {
    if (fcntl(stream, F_GETFD) == -1) open("/dev/null", stream == 0 ? O_RDONLY : O_WRONLY);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  exit_on_interrupt();
}

/// Limits OpenBLAS, if liblapack is OpenBLAS, to one thread: runs already use all cores, and the
/// solvers' dense parts are small. Does nothing if OPENBLAS_NUM_THREADS is set. (OpenBLAS starts
/// its threads when it is loaded, before main(); they stay idle.)
void no_blas_threads() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread calls setenv
  if (std::getenv("OPENBLAS_NUM_THREADS") != nullptr) return;
  if (void* found = dlsym(RTLD_DEFAULT, "openblas_set_num_threads"); found != nullptr)
    reinterpret_cast<void (*)(int)>(found)(1);
}

/// The verb with its parents: "baechi trace info".
std::string command(const CLI::App& verb) {
  const CLI::App* parent = verb.get_parent();
  return (parent == nullptr ? "" : command(*parent) + " ") + verb.get_name();
}

/// A message about the first leading word that is not a verb; "" if all leading words are verbs.
std::string unknown_verb(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    std::vector<std::string> known;
    const CLI::App* next = nullptr;
    for (const CLI::App* verb : at->get_subcommands([](const CLI::App*) { return true; })) {
      if (verb->get_name() == word) next = verb;
      known.push_back(verb->get_name());
    }
    if (known.empty() || word.starts_with('-')) return "";
    if (next == nullptr)
      return fmt::format("{}: no verb '{}'{} (verbs: {})\n'{} --help' describes them.\n",
                         command(*at), word, did_you_mean(word, known), fmt::join(known, ", "),
                         command(*at));
    at = next;
  }
  return "";
}

const CLI::App& parsed_verb(const CLI::App& app) {
  const std::vector<CLI::App*> verbs = app.get_subcommands();
  return verbs.empty() ? app : parsed_verb(*verbs.front());
}

/// A message about a failed parse: unknown flags, else surplus words, else the parser's own error,
/// which may be a consequence of these.
std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& verb = parsed_verb(app);
  std::vector<std::string> flags;
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  std::string unknown, surplus;
  for (const std::string& word : app.remaining(true)) {
    const std::string flag = word.substr(0, word.find('='));
    if (word.starts_with('-') && word != "-")
      unknown +=
          fmt::format("{}: no flag '{}'{}\n", command(verb), flag, did_you_mean(flag, flags));
    else
      surplus += fmt::format(
          "{}: unexpected word '{}' (a value with a space needs quotes, such as '8 GiB')\n",
          command(verb), word);
  }
  std::string message = unknown.empty() ? surplus : unknown;
  if (message.empty()) message = fmt::format("{}: {}\n", command(verb), error.what());
  return message + fmt::format("'{} --help' lists the flags.\n", command(verb));
}

void describe(CLI::App& app) {
  app.description("baechi " BAECHI_VERSION
                  ": places the ops of a model on devices, and simulates a training step");
  app.set_version_flag("--version",
                       fmt::format("baechi " BAECHI_VERSION "{}",
                                   *commit == '\0' ? "" : fmt::format(" (commit {})", commit)));
  app.formatter(std::make_shared<HelpFormat>());
  app.require_subcommand(1);
}

void add_group(CLI::App& app, Verb& chosen, const char* heading,
               std::initializer_list<void (*)(CLI::App&, Verb&)> adders) {
  const std::size_t before = app.get_subcommands({}).size();
  for (const auto add : adders) add(app, chosen);
  const std::vector<CLI::App*> verbs = app.get_subcommands({});
  for (std::size_t i = before; i < verbs.size(); ++i) verbs[i]->group(heading);
}

void add_verbs(CLI::App& app, Verb& chosen) {
  add_group(
      app, chosen, "Place and simulate",
      {add_fit, add_place, add_simulate, add_bound, add_explain, add_what_if, add_plan, add_query});
  add_group(app, chosen, "Sweep and compare",
            {add_run, add_merge, add_compare, add_report, add_arena});
  add_group(app, chosen, "Study", {add_study, add_paper});
  add_group(app, chosen, "Validate", {add_validate});
  add_group(app, chosen, "Files and names", {add_trace, add_list, add_schema});
  app.footer(
      "First steps:\n"
      "  baechi run scenarios/examples/first.yaml --out results\n"
      "  baechi trace generate layered ops=200 -o graph.json\n"
      "  baechi place graph.json --placer m_etf --devices 2 --memory '4 GiB' -o placement.json\n"
      "  baechi simulate graph.json --placement placement.json --devices 2 --memory '4 GiB'\n"
      "'baechi VERB --help' describes a verb. Quantities have a unit: '8 GiB', '134 us', '5.7 "
      "GB/s'.\n"
      "Exit codes: 0 done (out of memory and infeasible are results), 1 internal failure,\n"
      "2 a mistake in files or flags, 3 a check found a difference, 130 interrupted.");
}

/// Rejects an empty value of a flag (''), which usually is an unset variable of a script.
void refuse_empty_values(CLI::App& verb) {
  for (CLI::Option* option : verb.get_options()) {
    if (option->get_type_size() == 0) continue;  // it takes no value
    option->check(CLI::Validator(
        [](const std::string& text) {
          return std::string(text.empty() ? "the value is empty" : "");
        },
        ""));
  }
  for (CLI::App* inner : verb.get_subcommands({})) refuse_empty_values(*inner);
}

/// What a newcomer types first, for `baechi` without arguments.
std::string first_words(const CLI::App& app) {
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    verbs.push_back(verb->get_name());
  return fmt::format(
      "{}\n\n"
      "Does a model fit on my GPUs, how fast is it, and by which means?\n"
      "  baechi fit llama:size=3-8b,dtype=fp16 --gpus 1xrtx_4080\n"
      "Which GPU should run which part of a model?\n"
      "  baechi place resnet50:batch=32 --gpus 1xrtx_4090,1xrtx_2080\n"
      "Which heuristic places best?\n"
      "  baechi run first --out results\n\n"
      "All verbs: {}.\n"
      "'baechi --help' describes them.\n",
      app.get_description(), fmt::join(verbs, ", "));
}

int run(int argc, char** argv) {
  CLI::App app("", "baechi");
  Verb chosen;
  describe(app);
  add_verbs(app, chosen);
  refuse_empty_values(app);
  plain_types(app);

  if (argc < 2) {
    fmt::print(stderr, "{}", wrapped_lines(first_words(app)));
    return users_mistake;
  }
  if (const std::string message = unknown_verb(app, argc, argv); !message.empty()) {
    fmt::print(stderr, "{}", message);
    return users_mistake;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    print_out(app.help());
    return 0;
  } catch (const CLI::CallForVersion& version) {
    print_out(fmt::format("{}\n", version.what()));
    return 0;
  } catch (const CLI::ParseError& error) {
    const CLI::App& verb = parsed_verb(app);
    const bool bare = app.remaining(true).empty() && !verb.get_subcommands({}).empty();
    fmt::print(stderr, "{}", bare ? app.help() : explain(app, error));
    return users_mistake;
  }
  return chosen();
}

/// "PATH: reason".
std::string describe_failure(const std::filesystem::filesystem_error& error) {
  return fmt::format("{}: {}", error.path1().string(), error.code().message());
}

/// Prints `message` on standard error without control characters: it may quote a user's file, which
/// must not control the terminal.
void print_error(std::string_view message) { fmt::print(stderr, "{}\n", plain_text(message)); }

/// Limits this process's memory to the host's memory and swap, or the container's limit if smaller,
/// so that it fails with a message when memory runs out. Without a limit Linux overcommits, and
/// later kills some process without a message.
void limit_memory() {
  struct sysinfo host{};
  if (sysinfo(&host) != 0) return;
  std::uint64_t most = (std::uint64_t{host.totalram} + host.totalswap) * host.mem_unit;
  std::uint64_t container = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> container) most = std::min(most, container);
  // Sanitizers map more memory than any machine has: no limit in that case.
  std::uint64_t pages = 0, data = 0;
  std::ifstream usage("/proc/self/statm");
  for (int field = 0; field < 6 && usage >> pages; ++field) data = pages;
  rlimit limit{};
  if (getrlimit(RLIMIT_DATA, &limit) != 0 || limit.rlim_cur <= most) return;
  if (data * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) > most) return;
  limit.rlim_cur = most;
  setrlimit(RLIMIT_DATA, &limit);
}

}  // namespace
}  // namespace baechi

namespace {

int run_guarded(int argc, char** argv) {
  using namespace baechi;
  try {
    init_process();
    no_blas_threads();
    limit_memory();
    return run(argc, argv);
  } catch (const InputError& mistake) {
    print_error(mistake.what());
    return users_mistake;
  } catch (const InfeasibleError& result) {
    print_out(fmt::format("{}   {}\n", to_text(Status::infeasible), result.what()));
    return 0;
  } catch (const std::filesystem::filesystem_error& mistake) {
    print_error(describe_failure(mistake));
    return users_mistake;
  } catch (const std::bad_alloc&) {
    print_error("baechi: out of host memory");
    return internal_failure;
  } catch (const std::exception& failure) {
    print_error(fmt::format("baechi: {}", failure.what()));
    return internal_failure;
  }
}

}  // namespace

/// Exits without the exit handlers of libraries: OpenBLAS's retries allocations forever when memory
/// is exhausted.
int main(int argc, char** argv) {
  const int code = run_guarded(argc, argv);
  std::fflush(nullptr);
  std::_Exit(code);
}
