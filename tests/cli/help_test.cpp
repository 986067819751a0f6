#include <regex>

#include "placers/interface/registry.h"
#include "tests/cli/session.h"
#include "traces/generator.h"
#include "traces/importer.h"

namespace {

struct Help {
  std::string verb, text;
};

/// The help of the verb and of all verbs listed in it (names after two spaces under a heading).
void add_helps(const Session& session, const std::string& verb, std::vector<Help>& all) {
  const auto help = session.run(verb + " --help");
  CAPTURE(verb);
  REQUIRE(help.code == 0);
  CHECK(help.err.empty());
  all.push_back({verb, help.out});
  bool of_verbs = false;
  for (const std::string& line : lines_of(help.out)) {
    if (line.ends_with(':') && !line.starts_with(' '))
      of_verbs = !holds(line, "Options") && !holds(line, "Positionals") &&
                 !holds(line, "CLUSTER") && !holds(line, "Example") &&
                 !holds(line, "First steps") && !holds(line, "Schedules");
    if (line.empty()) of_verbs = false;
    if (!of_verbs || !line.starts_with("  ") || line[2] == ' ') continue;
    const std::string name = line.substr(2, line.find(' ', 2) - 2);
    if (name == "baechi") continue;  // an example
    add_helps(session, verb.empty() ? name : verb + " " + name, all);
  }
}

std::vector<Help> all_helps() {
  std::vector<Help> all;
  add_helps(Session(), "", all);
  return all;
}

/// Each option's help as one line.
std::vector<std::string> options_of(const std::string& help) {
  std::vector<std::string> options;
  bool inside = false;
  for (const std::string& line : lines_of(help)) {
    if (line.starts_with("  -")) {
      options.push_back(line);
      inside = true;
    } else if (inside && line.starts_with("        ")) {
      options.back() += " " + line.substr(line.find_first_not_of(' '));
    } else {
      inside = false;
    }
  }
  return options;
}

/// The first list of two or more words ("a,b", "a|b" or "a, b") that occurs twice in `text`, as
/// "a,b"; "" if there is none.
std::string listed_twice(const std::string& text) {
  const std::regex list(R"(\w+(?:(?:\||, ?)\w+)+)"), separator(R"(\||, )");
  std::set<std::string> seen;
  for (std::sregex_iterator it(text.begin(), text.end(), list), end; it != end; ++it) {
    const std::string words = std::regex_replace(it->str(), separator, ",");
    if (!seen.insert(words).second) return words;
  }
  return "";
}

}  // namespace

TEST_SUITE_BEGIN("cli");
TEST_CASE("the help of every verb has lines of at most 100 characters and no CLI11 terms") {
  const std::vector<Help> all = all_helps();
  std::set<std::string> verbs;
  for (const Help& help : all) verbs.insert(help.verb);
  for (const char* verb : {"run", "place", "what-if", "trace info", "arena duel", "study configure",
                           "study codesign", "validate plan"})
    CHECK(verbs.contains(verb));
  for (const Help& help : all) {
    CAPTURE(help.verb);
    CHECK(help.text.ends_with("\n"));
    for (const std::string& line : lines_of(help.text)) {
      CAPTURE(line);
      CHECK(line.size() <= 100);
      // CLI11's descriptions of types and checks: "N:INT in [1 - 10]", "TEXT:{a,b}".
      for (const char* word : {"INT", "FLOAT", "TEXT", "ENUM", ":{", " in ["})
        CHECK_FALSE(holds(line, word));
      CHECK_FALSE(holds(line, ". Of "));
      CHECK_FALSE(holds(line, "  Of "));
    }
    for (const std::string& option : options_of(help.text)) {
      CAPTURE(option);
      CHECK(listed_twice(option) == "");
    }
  }
}

TEST_CASE_FIXTURE(Session, "a verb inside of another is its own, with flags of its own") {
  for (const char* inner : {"duel", "configure", "codesign"}) {
    CAPTURE(inner);
    CHECK(run(inner).code == 2);
    refuses(inner, std::string("no verb '") + inner + "'");
  }
  CHECK(run("arena --format json duel m_etf heft").code == 2);
  refuses("arena --format json duel m_etf heft", "no flag of 'arena duel'");
  refuses("arena dule", "(did you mean 'duel'?)");
}

TEST_CASE_FIXTURE(Session, "a mistyped verb, flag or value is refused, with the nearest name") {
  const struct {
    std::string arguments, message;
  } mistakes[] = {
      {"", "simulate"},
      {"simulat toy.json", "no verb 'simulat' (did you mean 'simulate'?)"},
      {"trace inof toy.json", "no verb 'inof' (did you mean 'info'?)"},
      {"bound toy.json --devcies 2 --memory 1GB",
       "no flag '--devcies' (did you mean '--devices'?)"},
      {"bound toy.json --devcies=2 --memory 1GB",
       "no flag '--devcies' (did you mean '--devices'?)"},
      {"bound toy.json --format jsn " + two_gpus, "'jsn' is not one of table, json"},
      {"bound toy.json " + two_gpus + " --transfers dupelx", "(did you mean 'duplex'?)"},
      {"bound toy.json --devices 2", "--memory is missing, such as '--memory '8 GiB''"},
      {"bound toy.json --devices 2 --memory 8", "--memory: '8' is not a size such as '8 GiB'"},
      {"bound toy.json --devices two --memory 8GB", "--devices: 'two' is not a whole number"},
      {"bound toy.json --devices 0 --memory 8GB", "at least one device"},
      {"bound toy.json " + two_gpus + " --memory-fraction 2", "(0, 1]"},
      {"bound toy.json " + two_gpus + " --scenario x.yaml", "--scenario"},
      {"bound toy.json --devices 2 --memory 8 GiB", "unexpected word 'GiB'"},
      {"bound nowhere.json " + two_gpus, "nowhere.json"},
      {"bound toy.json --scenario nowhere.yaml", "nowhere.yaml"},
      {"place toy.json --placer m_tpo " + two_gpus, "no placer 'm_tpo' (did you mean 'm_topo'?)"},
      {"place toy.json --placer single:devise=1 " + two_gpus,
       "--placer: single has no option 'devise' (did you mean 'device'?)"},
      {"place toy.json --placer single:device " + two_gpus, "'device' is not key=value"},
      {"place toy.json --placer single:device=1,device=0 " + two_gpus, "'device' is given twice"},
      {"place toy.json --placer single --seed x " + two_gpus, "--seed"},
      {"place toy.json --placer single -o no/where.json " + two_gpus, "no/where.json"},
      {"simulate toy.json --placement nowhere.json " + two_gpus, "nowhere.json"},
      {"simulate toy.json --placement split.json --devices 1 --memory 1GB", "split.json"},
      {"simulate toy.json --placement split.json --timeline no/where.json " + two_gpus,
       "no/where.json"},
      {"trace convert toy.json toy.xml", "'toy.xml' has no known extension"},
      {"trace generate layred", "(did you mean 'layered'?)"},
      {"trace generate layered ops=many", "layered.ops: 'many' is not"},
      {"list placer", "unknown name 'placer' (did you mean 'placers'?)"},
      {"list placers m_etv", "unknown name 'm_etv' (did you mean 'm_etf'?)"},
  };
  for (const auto& [arguments, message] : mistakes) {
    CAPTURE(arguments);
    const auto result = run(arguments);
    CAPTURE(result.err);
    CHECK(result.code == 2);
    CHECK(result.out.empty());
    CHECK(holds(result.err, message));
  }
}

TEST_CASE("several wrong flags are reported together") {
  const auto result = Session().run("bound toy.json --devices x --bandwidth 5 --semantics evnt");
  CHECK(result.code == 2);
  for (const char* part : {"--memory is missing", "'x'", "'5'", "(did you mean 'event'?)"})
    CHECK(holds(result.err, part));
}

TEST_CASE_FIXTURE(Session, "list fits a screen; WHAT has a line per item, NAME its options") {
  const std::string all = run("list").out;
  CHECK(std::ranges::count(all, '\n') <= 60);
  for (const PlacerEntry& entry : placers()) CHECK(holds(all, entry.name));
  CHECK_FALSE(holds(all, "fallback"));  // an option
  const std::string lines = run("list placers").out;
  CHECK(static_cast<std::size_t>(std::ranges::count(lines, '\n')) == placers().size());
  CHECK_FALSE(holds(lines, "keep room for a group"));
  const std::string one = run("list placers m_etf").out;
  CHECK(holds(one, "Source: Baechi, SoCC'20"));
  CHECK(holds(one, "reserve            keep room for a group"));
  CHECK_FALSE(holds(one, "m_topo"));
  CHECK(json("list placers m_etf")["placers"].size() == 1);
}

TEST_CASE_FIXTURE(Session, "list has the scenarios and papers that 'run' and 'paper' accept") {
  CHECK(holds(run("list").out, "papers             baechi_socc20 cnn_utilisation"));
  CHECK(holds(run("list scenarios slow_link").out, "scenarios/examples/slow_link.yaml"));
  CHECK(json("list papers").at("papers").front().at("name") == "baechi_socc20");
  runs("run slow_link --quiet --out named");
}

TEST_CASE_FIXTURE(Session, "list has all registered components with their options") {
  const Json all = json("list");
  CHECK(has_keys(
      all, {"placers", "transforms", "generators", "importers", "devices", "scenarios", "papers"}));
  CHECK(all["placers"].size() == placers().size());
  CHECK(all["generators"].size() == generators().size());
  CHECK(all["importers"].size() == importers().size());
  CHECK(all["placers"][0]["name"] == placers().front().name);
  CHECK(all["placers"][0]["options"][0]["name"] == "device");
  CHECK(keys(json("list placers")) == std::vector<std::string>{"placers"});
  for (const PlacerEntry& entry : placers()) {
    CAPTURE(entry.name);
    CHECK(holds(run("list placers").out, entry.name));
    CHECK(
        holds(run("list placers --format markdown").out, "| `" + std::string(entry.name) + "` |"));
  }
}
