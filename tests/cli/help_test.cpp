#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "placers/interface/registry.h"
#include "tests/cli/session.h"
#include "tests/this_build.h"
#include "traces/generator.h"
#include "traces/importer.h"

using namespace baechi;
using namespace baechi::testing;
using Json = nlohmann::json;

TEST_SUITE("cli") {
  TEST_CASE("every verb explains itself") {
    const Session session;
    CHECK(session.run("--help").code == 0);
    CHECK(session.run("--version").out.starts_with("baechi " + version()));
    for (const char* verb : {"run", "place", "simulate", "explain", "compare", "duel", "arena",
                             "train", "bound", "trace", "list", "report", "schema", "trace info",
                             "trace check", "trace convert", "trace generate"}) {
      CAPTURE(verb);
      const auto help = session.run(std::string(verb) + " --help");
      CHECK(help.code == 0);
      CHECK(help.err.empty());
      CHECK(holds(help.out, "baechi"));
    }
    for (const char* verb : {"run", "place", "simulate", "bound", "list"}) {
      CAPTURE(verb);
      CHECK(holds(session.run(std::string(verb) + " --help").out, "Example"));
    }
  }

  TEST_CASE("a mistyped verb, flag or value is the user's mistake, with the nearest that exists") {
    const Session session;
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
        {"bound toy.json --devices 2 --memory 8 GiB", "'GiB' is a word too many"},
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
        {"trace convert toy.json toy.xml", "'toy.xml' does not say the format"},
        {"trace generate layred", "(did you mean 'layered'?)"},
        {"trace generate layered ops=many", "layered.ops: 'many' is not"},
        {"list placer", "nothing called 'placer' (did you mean 'placers'?)"},
    };
    for (const auto& [arguments, message] : mistakes) {
      CAPTURE(arguments);
      const auto result = session.run(arguments);
      CAPTURE(result.err);
      CHECK(result.code == 2);
      CHECK(result.out.empty());
      CHECK(holds(result.err, message));
    }
  }

  TEST_CASE("several wrong flags are told at once") {
    const auto result = Session().run("bound toy.json --devices x --bandwidth 5 --semantics evnt");
    CHECK(result.code == 2);
    for (const char* part : {"--memory is missing", "'x'", "'5'", "(did you mean 'event'?)"})
      CHECK(holds(result.err, part));
  }

  TEST_CASE("list has everything that is registered, with its options") {
    const Session session;
    const Json all = session.json("list");
    CHECK(has_keys(all, {"placers", "transforms", "generators", "importers", "devices", "scenarios",
                         "papers"}));
    CHECK(all["placers"].size() == placers().size());
    CHECK(all["generators"].size() == generators().size());
    CHECK(all["importers"].size() == importers().size());
    CHECK(all["placers"][0]["name"] == placers().front().name);
    CHECK(all["placers"][0]["options"][0]["name"] == "device");
    CHECK(keys(session.json("list placers")) == std::vector<std::string>{"placers"});
    for (const PlacerEntry& entry : placers()) {
      CAPTURE(entry.name);
      CHECK(holds(session.run("list placers").out, entry.name));
      CHECK(holds(session.run("list placers --format markdown").out,
                  "| `" + std::string(entry.name) + "` |"));
    }
  }
}
