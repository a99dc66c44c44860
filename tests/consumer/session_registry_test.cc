// Sessions that end while others look at their rings.
#include "src/consumer/session_registry.h"

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "src/consumer/buffer_set.h"
#include "src/consumer/event_log.h"
#include "src/consumer/ring_scheduler.h"
#include "tests/consumer/fed_ring.h"

namespace tracering::internal {
namespace {

// A flush looks at the cursors while a session is closing, finds them
// impossible, and ends in time before it drains anything. Whoever closes the
// session must not wait for a slice that nobody runs.
TEST(SessionRegistryTest, RingThatIsStoppedByALookDoesNotKeepItsSessionOpen) {
  os::Epoll epoll = *os::Epoll::Create();
  EventLog log(nullptr);
  const auto buffers =
      *BufferSet::Create({{"main", 64 * 1024, FillPolicy::kRing}}, 1 << 20);
  RingScheduler scheduler;
  SessionRegistry registry(ConsumerLimits(), 0, buffers.get(), &scheduler,
                           &epoll, &log);
  test::FedRing fed;
  ProducerSession* session = *registry.Open();
  std::vector<RingRequest> requests(1);
  requests[0].memfd = fed.image().fd();
  requests[0].num_chunks = fed.image().geometry().num_chunks();
  requests[0].chunk_size = fed.image().geometry().chunk_size();
  ASSERT_TRUE(registry.AttachRings(session, requests).ok());
  registry.MarkAttached(session);
  fed.Publish(1, 1);

  const uint64_t id = session->id;
  registry.BeginClose(session, "leaves");
  ASSERT_NE(registry.Find(id), nullptr);
  fed.image().set_write_pos(0x8000'0000);
  (void)session->rings[0]->CaptureEnd();
  ASSERT_TRUE(session->rings[0]->stopped());
  EXPECT_FALSE(registry.RunClosingSlice(id));
  EXPECT_EQ(registry.Find(id), nullptr);
}

}  // namespace
}  // namespace tracering::internal
