// Explores the configurations and says how many executions each took.
//
//   explore [--long] [--list] [--only NAME]... [--expect INVARIANT]
//           [--max-executions N]
//
// Exits with status 0 if every configuration was explored to its end and held
// its promises. With --expect the program is one that was broken on purpose:
// status 0 if the first violation is one of that invariant.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/explore/configuration.h"

namespace tracering::test {
namespace {

struct Arguments {
  bool with_long = false;
  bool list = false;
  std::vector<std::string> only;
  std::string expect;
  uint64_t max_executions = UINT64_MAX;
};

bool Parse(int argc, char** argv, Arguments* arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool has_value = i + 1 < argc;
    if (argument == "--long") {
      arguments->with_long = true;
    } else if (argument == "--list") {
      arguments->list = true;
    } else if (argument == "--only" && has_value) {
      arguments->only.emplace_back(argv[++i]);
    } else if (argument == "--expect" && has_value) {
      arguments->expect = argv[++i];
    } else if (argument == "--max-executions" && has_value) {
      arguments->max_executions = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::fprintf(stderr,
                   "usage: explore [--long] [--list] [--only NAME]... "
                   "[--expect INVARIANT] [--max-executions N]\n");
      return false;
    }
  }
  return true;
}

bool IsWanted(const Configuration& configuration, const Arguments& arguments) {
  if (arguments.only.empty()) {
    return arguments.with_long || !configuration.is_long;
  }
  for (const std::string& name : arguments.only) {
    if (configuration.name == name) return true;
  }
  return false;
}

ExploreResult Explore(Explorer& explorer, const Configuration& configuration,
                      uint64_t max_executions,
                      std::set<std::string_view>* reached) {
  ExploreOptions options = configuration.options;
  options.max_executions = max_executions;
  ExploreResult sum;
  sum.complete = true;
  for (const auto& make : configuration.scenarios) {
    auto scenario = make();
    const ExploreResult result = explorer.Explore(*scenario, options);
    for (const std::string_view name : scenario->Reached()) {
      reached->insert(name);
    }
    sum.executions += result.executions;
    sum.redundant += result.redundant;
    sum.steps += result.steps;
    sum.longest = std::max(sum.longest, result.longest);
    sum.complete = sum.complete && result.complete;
    sum.violation = result.violation;
    if (!sum.violation.has_value()) continue;
    // Its parties were left in the middle of something and cannot be destroyed.
    (void)scenario.release();
    break;
  }
  return sum;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, &arguments)) return 2;
  std::vector<Configuration> configurations = RingConfigurations();
  for (Configuration& configuration : ProfileConfigurations()) {
    configurations.push_back(std::move(configuration));
  }
  uint64_t executions = 0;
  size_t explored = 0;
  bool all_complete = true;
  std::set<std::string_view> reached;
  Explorer explorer;
  if (!arguments.list) {
    std::printf("%-24s %12s %12s %8s %11s %8s\n", "configuration", "executions",
                "redundant", "longest", "bound", "CPU s");
  }
  for (const Configuration& configuration : configurations) {
    if (!IsWanted(configuration, arguments)) continue;
    const std::string bound =
        configuration.options.preemptions.has_value()
            ? std::to_string(*configuration.options.preemptions) + " preempt."
            : "none";
    if (arguments.list) {
      std::printf("%-24s %s\n", configuration.name.c_str(),
                  configuration.what.c_str());
      continue;
    }
    const std::clock_t begin = std::clock();
    const ExploreResult result =
        Explore(explorer, configuration, arguments.max_executions, &reached);
    const double seconds =
        static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    ++explored;
    executions += result.executions;
    std::printf("%-24s %12llu %12llu %8zu %11s %8.2f\n",
                configuration.name.c_str(),
                static_cast<unsigned long long>(result.executions),
                static_cast<unsigned long long>(result.redundant),
                result.longest, bound.c_str(), seconds);
    std::fflush(stdout);
    if (result.violation.has_value()) {
      const Violation& violation = *result.violation;
      std::printf("VIOLATION of %s: %s\n%s", InvariantName(violation.invariant),
                  violation.what.c_str(), violation.trace.c_str());
      return arguments.expect == InvariantName(violation.invariant) ? 0 : 1;
    }
    if (!result.complete) {
      std::printf("NOT COMPLETE\n");
      all_complete = false;
    }
  }
  if (arguments.list) return 0;
  if (explored == 0) {
    std::fprintf(stderr, "no such configuration\n");
    return 2;
  }
  std::printf("%zu configurations, %llu executions\n", explored,
              static_cast<unsigned long long>(executions));
  for (const std::string_view name : RequiredSituations(arguments.with_long)) {
    if (!arguments.only.empty() || reached.count(name) != 0) continue;
    std::printf("never met: %.*s\n", static_cast<int>(name.size()),
                name.data());
    all_complete = false;
  }
  return all_complete && arguments.expect.empty() ? 0 : 1;
}

}  // namespace
}  // namespace tracering::test

int main(int argc, char** argv) { return tracering::test::Main(argc, argv); }
