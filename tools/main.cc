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

namespace tracering::tools {
namespace {

constexpr std::string_view kUsage =
    R"(usage: tracering COMMAND [ARGUMENT...]

Records what instrumented programs trace, and looks at it.

  record   start a service, run a program under it if one is named, and save
           a trace
  dump     print the packets of a trace file
  stat     show what a running service takes from whom
  ring     look into the ring of a program that died, and save what is in it

'tracering COMMAND --help' tells more, 'tracering --version' which one this is.
Traces are opened with https://ui.perfetto.dev or with trace_processor.
)";

struct Subcommand {
  std::string_view name;
  int (*run)(std::vector<std::string>);
};

constexpr Subcommand kSubcommands[] = {
    {"dump", Dump},
    {"record", Record},
    {"ring", Ring},
    {"stat", Stat},
};

int Run(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) {
    PrintError(kUsage);
    return kExitUsage;
  }
  const std::string& name = arguments[0];
  if (name == "--help" || name == "-h" || name == "help") {
    return Print("help", kUsage) ? EXIT_SUCCESS : kExitFailure;
  }
  if (name == "--version") {
    const bool printed =
        Print("version", fmt::format("tracering {}\n", TRACERING_VERSION));
    return printed ? EXIT_SUCCESS : kExitFailure;
  }
  for (const Subcommand& subcommand : kSubcommands) {
    if (subcommand.name != name) continue;
    return subcommand.run({arguments.begin() + 1, arguments.end()});
  }
  PrintError(fmt::format(
      "tracering: there is no command '{}'\nTry 'tracering --help'.\n",
      Printable(name)));
  return kExitUsage;
}

}  // namespace
}  // namespace tracering::tools

int main(int argc, char** argv) {
  try {
    return tracering::tools::Run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("tracering: out of memory\n", stderr);
    return tracering::tools::kExitFailure;
  }
}
