// What the C API makes of nulls, of values that cannot be, and of structs of
// other sizes. tests/integration has a program in C under a service.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/producer/scripted_service.h"
#include "tests/support/temp_dir.h"
#include "tracering/c/packet.h"
#include "tracering/c/producer.h"
#include "tracering/c/status.h"
#include "tracering/c/track_event.h"

namespace tracering::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CApiTest : public testing::Test {
 protected:
  CApiTest() : options_(tracering_options_create()) {
    tracering_options_set_name(options_, "c");
    tracering_options_set_socket_path(options_,
                                      directory_.Path("socket").c_str());
    tracering_options_set_own_thread(options_, false);
  }
  ~CApiTest() override {
    tracering_producer_destroy(producer_);
    tracering_options_destroy(options_);
  }

  void Create() {
    ASSERT_EQ(
        tracering_producer_create(options_, &producer_, error_, sizeof(error_)),
        TRACERING_OK)
        << error_;
    EXPECT_STREQ(error_, "");
  }

  const TempDir directory_;
  tracering_options* options_;
  tracering_producer* producer_ = nullptr;
  char error_[400] = "not touched";
};

TEST_F(CApiTest, WrongOptionsAreNamedWithTheRuleThatTheyBreak) {
  struct Case {
    void (*set)(tracering_options*);
    const char* text;
  };
  const Case cases[] = {
      {[](auto* o) { tracering_options_set_ring_size(o, 1000); },
       "ring_size is 1000 bytes; it must be"},
      {[](auto* o) { tracering_options_set_chunk_size(o, 300); },
       "chunk_size is 300 bytes; it must be a power of two"},
      {[](auto* o) {
         tracering_options_set_name(o, std::string(256, 'n').c_str());
       },
       "has 256 bytes; at most 255"},
      {[](auto* o) { tracering_options_set_startup(o, 2); },
       "startup is 2; it must be TRACERING_STARTUP_BUFFER (0)"},
      {[](auto* o) { tracering_options_set_policy(o, -1, 0); },
       "policy is -1; it must be TRACERING_POLICY_DROP (0)"},
      {[](auto* o) { tracering_options_set_policy(o, 1, -5); },
       "stall_timeout is -5 ns; it must be 0 or more"},
      {[](auto* o) { tracering_options_add_buffer(o, nullptr); },
       "buffer name '' has 0 bytes; it must have 1 to"},
      {[](auto* o) { tracering_options_add_buffer_with_ring(o, "b", 5); },
       "ring_size of buffer 'b' is 5 bytes; it must be"},
      {[](auto* o) { tracering_options_set_buffer_policy(o, "b", 0, 0); },
       "policy for buffer 'b', which has not been added"},
      {[](auto* o) {
         tracering_options_add_buffer(o, "b");
         tracering_options_set_buffer_policy(o, "b", 7, 0);
         tracering_options_set_startup(o, 8);  // the first one is told
       },
       "policy is 7; it must be"},
      {[](auto* o) { tracering_options_set_clock(o, 2); },
       "clock is 2; it must be TRACERING_CLOCK_BOOTTIME (0)"},
      {[](auto* o) { tracering_options_set_event_buffer(o, ""); },
       "buffer name '' has 0 bytes"},
  };
  for (const Case& wrong : cases) {
    tracering_options* const options = tracering_options_create();
    wrong.set(options);
    EXPECT_EQ(tracering_start_tracing(options, error_, sizeof(error_)),
              TRACERING_INVALID_ARGUMENT)
        << wrong.text;
    EXPECT_THAT(error_, HasSubstr(wrong.text));
    // Without a place for the text, and with little.
    EXPECT_EQ(tracering_start_tracing(options, nullptr, 0),
              TRACERING_INVALID_ARGUMENT);
    char small[6] = "xxxxx";
    EXPECT_EQ(tracering_start_tracing(options, small, sizeof(small)),
              TRACERING_INVALID_ARGUMENT);
    EXPECT_EQ(std::string(small), std::string(error_).substr(0, 5));
    tracering_options_destroy(options);
  }
  tracering_producer* producer = producer_;
  EXPECT_EQ(
      tracering_producer_create(options_, nullptr, error_, sizeof(error_)),
      TRACERING_INVALID_ARGUMENT);
  EXPECT_THAT(error_, HasSubstr("producer is null"));
  EXPECT_EQ(
      tracering_producer_create(nullptr, &producer, error_, sizeof(error_)),
      TRACERING_INVALID_ARGUMENT);
  EXPECT_THAT(error_, HasSubstr("options is null"));
  EXPECT_STREQ(tracering_status_name(TRACERING_INVALID_ARGUMENT),
               "INVALID_ARGUMENT");
}

TEST_F(CApiTest, NullsHaveNoEffect) {
  tracering_options_set_name(nullptr, "n");
  tracering_options_set_socket_path(nullptr, nullptr);
  tracering_options_set_ring_size(nullptr, 1);
  tracering_options_set_chunk_size(nullptr, 1);
  tracering_options_set_ring_file(nullptr, nullptr);
  tracering_options_set_startup(nullptr, 9);
  tracering_options_set_policy(nullptr, 9, 9);
  tracering_options_add_buffer(nullptr, nullptr);
  tracering_options_add_buffer_with_ring(nullptr, nullptr, 0);
  tracering_options_set_buffer_policy(nullptr, nullptr, 0, 0);
  tracering_options_allow_service_uid(nullptr, 0);
  tracering_options_set_own_thread(nullptr, true);
  tracering_options_on_session_start(nullptr, nullptr, nullptr);
  tracering_options_set_event_buffer(nullptr, nullptr);
  tracering_options_set_categories(nullptr, nullptr);
  tracering_options_set_clock(nullptr, 0);
  tracering_options_destroy(nullptr);

  tracering_producer_destroy(nullptr);
  EXPECT_EQ(tracering_thread_writer(nullptr, "main"), nullptr);
  EXPECT_EQ(tracering_own_writer_create(nullptr, "main"), nullptr);
  EXPECT_EQ(tracering_own_writer_create_with_policy(nullptr, "main", 0, 0),
            nullptr);
  EXPECT_EQ(tracering_own_writer_get(nullptr), nullptr);
  tracering_own_writer_destroy(nullptr);
  EXPECT_EQ(tracering_flush(nullptr, 0, error_, sizeof(error_)),
            TRACERING_INVALID_ARGUMENT);
  EXPECT_STREQ(error_, "producer is null");
  EXPECT_EQ(tracering_trigger(nullptr, nullptr, nullptr, 0),
            TRACERING_INVALID_ARGUMENT);
  EXPECT_FALSE(tracering_consumer_attached(nullptr));
  EXPECT_FALSE(tracering_wait_for_consumer(nullptr, INT64_MAX));
  EXPECT_EQ(tracering_poll_fd(nullptr), -1);
  tracering_process_ready(nullptr);
  EXPECT_EQ(tracering_process_track(nullptr), 0u);
  EXPECT_EQ(tracering_thread_track(nullptr), 0u);
  EXPECT_EQ(tracering_thread_track_named(nullptr, nullptr), 0u);
  EXPECT_EQ(tracering_add_track(nullptr, nullptr, 0), 0u);
  EXPECT_EQ(tracering_add_counter_track(nullptr, nullptr, 0, 0), 0u);
  EXPECT_EQ(tracering_add_counter_track_in(nullptr, nullptr, nullptr, 0), 0u);
  tracering_remove_track(nullptr, 1);

  EXPECT_EQ(tracering_packet_begin(nullptr), nullptr);
  tracering_packet_end(nullptr);
  tracering_packet_discard(nullptr);
  tracering_append_varint(nullptr, 1, 1);
  tracering_append_int(nullptr, 1, 1);
  tracering_append_zigzag(nullptr, 1, 1);
  tracering_append_bool(nullptr, 1, true);
  tracering_append_fixed32(nullptr, 1, 1);
  tracering_append_fixed64(nullptr, 1, 1);
  tracering_append_float(nullptr, 1, 1);
  tracering_append_double(nullptr, 1, 1);
  tracering_append_string(nullptr, 1, nullptr);
  tracering_append_bytes(nullptr, 1, nullptr, 1);
  tracering_message_begin(nullptr, 1);
  tracering_message_end(nullptr);
  tracering_batch_begin(nullptr);
  tracering_batch_end(nullptr);

  tracering_set_thread_name(nullptr);
  tracering_set_enabled_categories(nullptr);
  EXPECT_FALSE(tracering_category_enabled(nullptr));
  tracering_slice_begin(nullptr, nullptr);
  tracering_slice_end(nullptr);
  EXPECT_EQ(tracering_slice_end_open(nullptr), nullptr);
  tracering_instant(nullptr, nullptr);
  tracering_category* const category = tracering_category_get(nullptr);
  tracering_instant(category, nullptr);
  tracering_event_track* const track =
      tracering_event_track_create(nullptr, nullptr);
  tracering_track_slice_begin(category, nullptr, nullptr);
  tracering_track_slice_begin(nullptr, track, nullptr);
  tracering_track_slice_end(nullptr);
  tracering_track_instant(category, nullptr, nullptr);
  tracering_event_track_destroy(track);
  tracering_event_track_destroy(nullptr);
  tracering_count_int(nullptr, nullptr, 1);
  tracering_count_double(category, nullptr, 1);
  tracering_arg_bool(nullptr, nullptr, true);
  tracering_arg_string(nullptr, nullptr, nullptr);
  tracering_arg_dict_begin(nullptr, nullptr);
  tracering_arg_array_begin(nullptr, nullptr);
  tracering_arg_flow(nullptr, 1);
  EXPECT_EQ(tracering_flush_tracing(0, error_, sizeof(error_)),
            TRACERING_FAILED_PRECONDITION);
  EXPECT_EQ(tracering_tracing_producer(), nullptr);
  tracering_stop_tracing();
}

TEST_F(CApiTest, StatsOfAnySizeAreFilledAsFarAsBothSidesKnow) {
  Create();
  tracering_writer* const writer = tracering_thread_writer(producer_, "main");
  tracering_packet_end(tracering_packet_begin(writer));
  // A caller of the future.
  struct {
    tracering_writer_stats known;
    uint64_t unknown = 77;
  } larger;
  larger.known.size = sizeof(larger);
  ASSERT_TRUE(tracering_writer_get_stats(writer, &larger.known));
  EXPECT_EQ(larger.known.size, sizeof(larger));
  EXPECT_EQ(larger.known.attempted, 1u);
  EXPECT_EQ(larger.unknown, 0u);
  // And one of the past, that knew the first two members.
  tracering_writer_stats smaller;
  std::memset(&smaller, 0x55, sizeof(smaller));
  smaller.size = offsetof(tracering_writer_stats, published);
  ASSERT_TRUE(tracering_writer_get_stats(writer, &smaller));
  EXPECT_EQ(smaller.attempted, 1u);
  EXPECT_EQ(smaller.published, 0x5555'5555'5555'5555u);
  for (const size_t size : {size_t{0}, sizeof(size_t)}) {
    smaller.size = size;
    EXPECT_FALSE(tracering_writer_get_stats(writer, &smaller));
  }
  EXPECT_FALSE(tracering_writer_get_stats(writer, nullptr));
  EXPECT_FALSE(tracering_writer_get_stats(nullptr, &larger.known));

  tracering_producer_stats producer;
  producer.size = sizeof(producer);
  ASSERT_TRUE(tracering_producer_get_stats(producer_, &producer));
  EXPECT_EQ(producer.num_rings, 2u);
  tracering_ring_stats ring;
  ring.size = sizeof(ring);
  ASSERT_TRUE(tracering_ring_get_stats(producer_, 0, &ring));
  EXPECT_STREQ(ring.name, "shared");
  EXPECT_EQ(ring.attempted, 1u);
  EXPECT_FALSE(tracering_ring_get_stats(producer_, 2, &ring));
  EXPECT_FALSE(tracering_producer_get_stats(producer_, nullptr));
  EXPECT_FALSE(tracering_producer_get_stats(nullptr, &producer));
}

// Everything that options can say reaches the producer.
TEST_F(CApiTest, OptionsTakeEffect) {
  struct Calls {
    int sessions = 0;
  } calls;
  tracering_options_set_ring_size(options_, 8 * 512);
  tracering_options_set_chunk_size(options_, 512);
  tracering_options_add_buffer_with_ring(options_, "own", 4 * 512);
  tracering_options_set_startup(options_, TRACERING_STARTUP_OFF);
  tracering_options_on_session_start(
      options_, [](void* user) { ++static_cast<Calls*>(user)->sessions; },
      &calls);
  ScriptedService service(directory_.Path("socket"));
  Create();
  tracering_writer* const writer = tracering_thread_writer(producer_, "own");
  EXPECT_EQ(writer, tracering_thread_writer(producer_, "own"));
  EXPECT_EQ(tracering_packet_begin(writer), nullptr) << "switched off";
  EXPECT_EQ(tracering_trigger(producer_, "t", error_, sizeof(error_)),
            TRACERING_UNAVAILABLE);
  EXPECT_EQ(tracering_flush(producer_, -1, error_, sizeof(error_)),
            TRACERING_UNAVAILABLE);
  EXPECT_THAT(error_, HasSubstr("no consumer is attached"));

  tracering_process_ready(producer_);
  auto session = service.AcceptAndWelcome({"own"});
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(session->hello().process_name, "c");
  ASSERT_TRUE(PollFd(tracering_poll_fd(producer_), 1));
  ASSERT_TRUE(tracering_wait_for_consumer(producer_, INT64_MAX));
  EXPECT_TRUE(tracering_consumer_attached(producer_));
  EXPECT_EQ(calls.sessions, 1);
  tracering_packet* const packet = tracering_packet_begin(writer);
  ASSERT_NE(packet, nullptr);
  tracering_append_varint(packet, 8, 4711);
  tracering_packet_end(packet);
  session->DrainAll();
  ASSERT_THAT(session->Packets(), testing::SizeIs(1));
  EXPECT_EQ(session->Packets()[0].timestamp(), 4711u);
  EXPECT_EQ(tracering_flush(producer_, 0, error_, sizeof(error_)), TRACERING_OK)
      << error_;

  tracering_ring_stats ring;
  ring.size = sizeof(ring);
  ASSERT_TRUE(tracering_ring_get_stats(producer_, 0, &ring));
  EXPECT_EQ(ring.num_chunks, 8u);
  EXPECT_EQ(ring.chunk_size, 512u);
  ASSERT_TRUE(tracering_ring_get_stats(producer_, 1, &ring));
  EXPECT_STREQ(ring.name, "own");
  EXPECT_EQ(ring.num_chunks, 4u);
  char name[10];
  ASSERT_TRUE(tracering_get_unknown_buffer(producer_, 0, name, sizeof(name)));
  EXPECT_STREQ(name, "own");
  EXPECT_FALSE(tracering_get_unknown_buffer(producer_, 1, name, sizeof(name)));
  EXPECT_TRUE(tracering_get_connection_error(producer_, name, sizeof(name)));
}

TEST_F(CApiTest, WritersOutliveTheirProducer) {
  Create();
  tracering_own_writer* const own =
      tracering_own_writer_create_with_policy(producer_, "main", 1, 1000);
  ASSERT_NE(own, nullptr);
  EXPECT_EQ(tracering_own_writer_create_with_policy(producer_, "main", 2, 0),
            nullptr);
  EXPECT_EQ(tracering_own_writer_create_with_policy(producer_, "main", 1, -1),
            nullptr);
  tracering_writer* const writer = tracering_own_writer_get(own);
  tracering_writer* const of_thread =
      tracering_thread_writer(producer_, "main");
  tracering_packet* const open = tracering_packet_begin(of_thread);
  ASSERT_NE(open, nullptr);
  tracering_producer_destroy(producer_);
  producer_ = nullptr;
  tracering_append_string(open, 900, "into nothing");
  tracering_packet_end(open);
  EXPECT_EQ(tracering_packet_begin(of_thread), nullptr);
  EXPECT_EQ(tracering_packet_begin(writer), nullptr);
  tracering_batch_begin(writer);
  tracering_batch_end(writer);
  tracering_own_writer_destroy(own);
}

TEST_F(CApiTest, TracksHaveNamesAndUnits) {
  ScriptedService service(directory_.Path("socket"));
  Create();
  tracering_process_ready(producer_);
  auto session = service.AcceptAndWelcome();
  ASSERT_NE(session, nullptr);
  ASSERT_TRUE(tracering_wait_for_consumer(producer_, INT64_MAX));
  const uint64_t process = tracering_process_track(producer_);
  const uint64_t parent = tracering_add_track(producer_, "parent", 0);
  std::vector<uint64_t> uuids = {
      tracering_thread_track_named(producer_, "me"),
      parent,
      tracering_add_track(producer_, "child", parent),
      tracering_add_counter_track(producer_, "heap", TRACERING_UNIT_SIZE_BYTES,
                                  0),
      tracering_add_counter_track(producer_, "odd", 99, 0),
      tracering_add_counter_track_in(producer_, "speed", "km/h", parent)};
  EXPECT_EQ(tracering_thread_track(producer_), uuids[0]);
  tracering_remove_track(producer_, uuids[1]);
  session->DrainAll();
  std::map<uint64_t, TrackDescriptor> tracks;
  for (const TracePacket& packet :
       session->PacketsOf(session->metadata_ring())) {
    tracks[packet.track_descriptor().uuid()] = packet.track_descriptor();
  }
  EXPECT_EQ(tracks[process].process().process_name(), "c");
  EXPECT_EQ(tracks[uuids[0]].thread().thread_name(), "me");
  EXPECT_EQ(tracks[uuids[2]].parent_uuid(), parent);
  EXPECT_EQ(tracks[uuids[3]].counter().unit(),
            CounterDescriptor::UNIT_SIZE_BYTES);
  EXPECT_EQ(tracks[uuids[4]].counter().unit(), 0);
  EXPECT_EQ(tracks[uuids[5]].counter().unit_name(), "km/h");
}

}  // namespace
}  // namespace tracering::test
