// One program for whoever records traces and looks at them; see subcommands.h.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "tools/command_line.h"
#include "tools/subcommands.h"

namespace {

constexpr std::string_view kUsage =
    R"(usage: tracering COMMAND [ARGUMENT...]

Records what instrumented programs trace, and looks at it.

  record   start a service, run a program under it if one is named, and save
           a trace
  dump     print the packets of a trace file
  stat     show what a running service takes from whom
  ring     look into the ring of a program that died, and save what is in it

'tracering COMMAND --help' tells more. Traces are opened with
https://ui.perfetto.dev or with trace_processor.
)";

struct Subcommand {
  std::string_view name;
  int (*run)(std::vector<std::string>);
};

constexpr Subcommand kSubcommands[] = {
    {"dump", tracering::tools::Dump},
    {"record", tracering::tools::Record},
    {"ring", tracering::tools::Ring},
    {"stat", tracering::tools::Stat},
};

int Run(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) {
    fmt::print(stderr, "{}", kUsage);
    return tracering::tools::kExitUsage;
  }
  const std::string& name = arguments[0];
  if (name == "--help" || name == "-h" || name == "help") {
    fmt::print("{}", kUsage);
    return EXIT_SUCCESS;
  }
  if (name == "--version") {
    fmt::print("tracering {}\n", TRACERING_VERSION);
    return EXIT_SUCCESS;
  }
  for (const Subcommand& subcommand : kSubcommands) {
    if (subcommand.name != name) continue;
    return subcommand.run({arguments.begin() + 1, arguments.end()});
  }
  fmt::print(stderr,
             "tracering: there is no command '{}'\nTry 'tracering --help'.\n",
             tracering::tools::Printable(name));
  return tracering::tools::kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("tracering: out of memory\n", stderr);
    return tracering::tools::kExitFailure;
  }
}
