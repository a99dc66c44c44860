// The load of a soak: threads that trace numbered packets of random sizes at
// random times until SIGTERM, or until somebody kills the process.
//
//   soak_load SEED COUNTS LIFE    the service is where $TRACERING_SOCKET says
//
// COUNTS is a file that survives the process: kSoakThreads counts of packets
// that were complete, each written by its thread after each packet. LIFE tells
// this process from another that had its id before.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "tests/integration/numbered_packet.h"
#include "tests/soak/soak_counts.h"
#include "tests/support/require.h"
#include "tracering/producer.h"

namespace {

using tracering::BufferExhaustedPolicy;
using tracering::Producer;
using tracering::ProducerOptions;
using tracering::test::Require;
using tracering::test::SoakCounts;
using Random = std::mt19937_64;

constexpr std::chrono::seconds kLong{30};

std::atomic<bool> ending{false};
void OnTerminate(int) { ending.store(true, std::memory_order_relaxed); }

uint64_t Below(Random& random, uint64_t bound) { return random() % bound; }

// Small rings most of the time, so that they are full, go round, and relocate.
ProducerOptions RandomOptions(Random& random) {
  ProducerOptions options;
  options.chunk_size = size_t{256} << Below(random, 5);
  options.ring_size = options.chunk_size << (1 + Below(random, 6));
  if (Below(random, 2) == 0) {
    options.writer_options.policy = BufferExhaustedPolicy::kStall;
    options.writer_options.stall_timeout =
        std::chrono::milliseconds(Below(random, 50));
  }
  return options;
}

std::string RandomText(Random& random) {
  const uint64_t kind = Below(random, 1000);
  if (kind == 0) return std::string(Below(random, 100'000), 'x');
  return std::string(Below(random, kind < 100 ? 2000 : 60), 'x');
}

void Trace(Producer& producer, uint64_t number, uint64_t seed,
           std::atomic<uint64_t>& complete) {
  Random random(seed);
  auto writer = producer.CreateWriter("main");
  for (uint64_t i = 0; !ending.load(std::memory_order_relaxed); ++i) {
    tracering::test::WriteNumbered(*writer, number, i, RandomText(random));
    complete.store(i + 1, std::memory_order_relaxed);
    const uint64_t what = Below(random, 100);
    if (what == 0) {
      std::this_thread::sleep_for(
          std::chrono::microseconds(Below(random, 40'000)));
    } else if (what < 10) {
      std::this_thread::yield();
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Require(argc == 4, "three arguments");
  signal(SIGTERM, OnTerminate);
  Random random(std::strtoull(argv[1], nullptr, 10));
  const uint64_t life = std::strtoull(argv[3], nullptr, 10);
  SoakCounts& counts = *SoakCounts::Map(argv[2]);
  auto producer = Producer::Create(RandomOptions(random));
  Require(producer.ok(), "a producer");
  std::array<std::thread, tracering::test::kSoakThreads> threads;
  for (size_t i = 0; i < threads.size(); ++i) {
    threads[i] = std::thread([&, i, seed = random()] {
      Trace(**producer, life * threads.size() + i, seed, counts.complete[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  // A service that is being restarted may be away; what is in the ring then
  // waits for the next one.
  Require((*producer)->WaitForConsumer(kLong), "a consumer");
  Require((*producer)->Flush(kLong).ok(), "a flush");
  return 0;
}
