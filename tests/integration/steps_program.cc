// One side of a session that ends, or stands still, right before its Nth access
// to a shared word: argv[1] says which side and what, argv[2] is N. The service
// is where $TRACERING_SOCKET says. Linked with the hooked libraries.
//
// Only the thread that traces or drains counts its accesses, from the session's
// first one on. A side that makes fewer accesses says `survived` last.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "src/common/sync/shared_word.h"
#include "tests/integration/numbered_packet.h"
#include "tests/integration/steps_session.h"
#include "tests/support/child_process.h"
#include "tests/support/require.h"
#include "tracering/consumer.h"
#include "tracering/producer.h"

namespace {

using namespace tracering;        // NOLINT(google-build-using-namespace)
using namespace tracering::test;  // NOLINT(google-build-using-namespace)

constexpr std::chrono::seconds kLong{30};

thread_local bool counts = false;
uint64_t accesses = 0;
uint64_t last_access = 0;
void (*at_last)() = nullptr;

void OnAccess(internal::SharedAccess, const void*) {
  if (counts && accesses++ == last_access) at_last();
}

void Die() { raise(SIGKILL); }

void StandStill() {
  handshake::Report();
  handshake::AwaitRelease();
}

void Say(const char* line) {
  puts(line);
  fflush(stdout);
}

// The packets of the session, one line for each that is complete.
int Produce() {
  auto producer = Producer::Create(StepsProducer());
  Require(producer.ok(), "a producer");
  Require((*producer)->WaitForConsumer(kLong), "a consumer");
  const OwnedTraceWriter writer = (*producer)->CreateWriter("main");
  counts = true;
  for (uint64_t i = 0; i < kStepsPackets; ++i) {
    WriteNumbered(*writer, 0, i, StepsText(i));
    Say("packet");
  }
  counts = false;
  Require((*producer)->Flush(kLong).ok(), "a flush");
  Require((*producer)->stats().lost == 0, "no loss");
  Say("survived");
  return 0;
}

// Drains what is there until the first packets are in its buffer.
int Consume() {
  ConsumerOptions options;
  options.socket_path = getenv("TRACERING_SOCKET");
  options.drain_period = std::chrono::milliseconds(1);
  auto consumer = Consumer::Create(options);
  Require(consumer.ok(), "a consumer");
  handshake::Report();
  counts = true;
  while ((*consumer)->stats().packets.delivered < kStepsPackets) {
    pollfd ready{(*consumer)->poll_fd(), POLLIN, 0};
    Require(poll(&ready, 1, -1) == 1, "poll");
    (*consumer)->ProcessReady();
  }
  Say("survived");
  Die();
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  struct Kind {
    int (*run)();
    void (*at_last)();
  };
  const std::map<std::string_view, Kind> kinds = {
      {"producer-dies", {Produce, Die}},
      {"producer-stands-still", {Produce, StandStill}},
      {"consumer-dies", {Consume, Die}},
  };
  Require(argc == 3, "two arguments");
  const auto kind = kinds.find(argv[1]);
  Require(kind != kinds.end(), "a known argument");
  at_last = kind->second.at_last;
  last_access = std::strtoull(argv[2], nullptr, 10);
  internal::shared_word_hook.store(OnAccess);
  return kind->second.run();
}
