// A program that records until its input ends; also the README's consumer.
#include <chrono>
#include <cstdio>

#include "tracering/consumer.h"

int main() {
  tracering::ConsumerOptions options;
  options.socket_path = tracering::DefaultSocketPath();
  options.buffers = {{"main", 32 << 20, tracering::FillPolicy::kRing}};
  auto consumer = tracering::Consumer::Create(options);
  if (!consumer.ok() || !(*consumer)->Start().ok()) return 1;

  while (std::getchar() != EOF) {  // until Ctrl-D
  }

  (*consumer)->Flush(std::chrono::seconds(1));
  const auto file = (*consumer)->WriteTrace("out.pftrace");
  return file.ok() ? 0 : 1;
}
