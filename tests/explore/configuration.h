// The configurations that are explored, by name.
//
// Each runs shipped code: configurations of the ring with TraceWriterImpl and
// ChunkWriter against ChunkReader, PacketAssembler and, where the reader
// sleeps, RingScheduler; those of the profile buffer with ProfileBuffer.
#ifndef TRACERING_TESTS_EXPLORE_CONFIGURATION_H_
#define TRACERING_TESTS_EXPLORE_CONFIGURATION_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/explore/explorer.h"

namespace tracering::test {

struct Configuration {
  std::string name;
  std::string what;  // one line
  ExploreOptions options;
  // Too long for every build: only with --long.
  bool is_long = false;
  // Explored one after the other; their executions are added up.
  std::vector<std::function<std::unique_ptr<Scenario>()>> scenarios;
};

std::vector<Configuration> RingConfigurations();
// What the configurations have to meet between them.
std::vector<std::string_view> RequiredSituations(bool with_long);
std::vector<Configuration> ProfileConfigurations();

}  // namespace tracering::test

#endif  // TRACERING_TESTS_EXPLORE_CONFIGURATION_H_
